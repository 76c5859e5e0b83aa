"""A gate as its users meet it: verdicts, contracts, what is free, what is refused, what is never lost."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import everhold as eh
from everhold.bounds.gain import SCORE_ONE
from everhold.errors import GateUsedUp, InvalidOutcomes, LedgerError, RequestConflict, RowsInUse, SettingError
from everhold.gate.gate import Gate
from everhold.gate.results import CheckResult, GateStatus, TotalGain


def cases(count=400, seed=0, share=0.5):
    rng = np.random.default_rng(seed)
    return {f"case-{k}": int(rng.random() < share) for k in range(count)}


def improved(old, share=0.3, seed=1):
    rng = np.random.default_rng(seed)
    return {case: 1 if rng.random() < share else value for case, value in old.items()}


def shuffled(old, share=0.1, seed=2):
    """As good as before in the population: as many get better as get worse."""
    rng = np.random.default_rng(seed)
    return {case: 1 - value if rng.random() < share else value for case, value in old.items()}


@pytest.fixture
def old():
    return cases()


@pytest.fixture
def gate(tmp_path, old):
    with Gate.create(tmp_path / "gate.everhold", old) as made:
        yield made


class TestChecks:
    def test_a_better_candidate_becomes_the_incumbent(self, gate, old):
        new = improved(old)
        found = gate.check(new, name="new")
        assert found.promoted
        assert found.certified
        assert (found.state, found.name, found.winner, found.checks, found.promotions) == ("promoted", "new", "new", 1, 1)
        assert gate.status().incumbent == "new"
        assert not gate.check(new).promoted  # against itself
        assert not gate.check(old).promoted  # the old one is worse now

    def test_phantoms_are_kept_out(self, gate, old):
        assert not any(gate.check(shuffled(old, seed=seed)).promoted for seed in range(30))

    def test_a_certified_promotion_needs_the_price_of_what_was_disclosed(self, gate, old):
        prices = [gate.check(shuffled(old, seed=seed)).price for seed in range(5)]
        assert prices == sorted(prices)
        assert len(set(prices)) == 5

    def test_cases_without_a_usable_outcome_are_failures(self, gate, old):
        new = improved(old, 0.5)
        for number, case in enumerate(list(new)[:10]):
            new[case] = (None, float("nan"), "error", 17, "?", [], "timeout")[number % 7]
        del new["case-11"]
        assert gate.check(new).promoted

    @pytest.mark.parametrize("wrong", [{"other": 1}, {"case-0": 1, "other": 1}, 7, [1, 2]])
    def test_invalid_outcomes_are_not_charged(self, gate, wrong):
        before = gate.status()
        with pytest.raises(InvalidOutcomes):
            gate.check(wrong)
        assert gate.status() == before

    def test_it_goes_on_in_another_process_as_it_was(self, gate, old, tmp_path):
        gate.check(improved(old), name="new")
        gate.release()
        again = Gate(tmp_path / "gate.everhold")
        assert again.status().incumbent == "new"
        assert not again.check(improved(old)).promoted
        assert again.status().checks == 2

    def test_the_same_request_gets_the_recorded_verdict(self, gate, old):
        new = improved(old)
        first = gate.check(new, request_id="one")
        assert first.promoted
        # Whatever the outcomes are now: comparing them with the recorded ones would be a free look.
        for outcomes in (new, old, shuffled(old)):
            again = gate.check(outcomes, request_id="one")
            assert again.repeated
            assert "This file was not checked" in str(again)
            assert replace(again, repeated=False) == first
        assert not first.repeated
        assert gate.status().checks == 1

    @pytest.mark.parametrize("other", [{"name": "small"}, {}, {"name": "big", "artifact": b"small"}, {"name": "big (2)x"}])
    def test_a_request_id_does_not_carry_a_verdict_to_another_candidate(self, gate, old, other):
        """A promotion under a branch's name must not deploy the branch's next commit."""
        assert gate.check(improved(old), name="big", request_id="pr-17").promoted
        head = gate.status().head
        with pytest.raises(RequestConflict, match="was not checked"):
            gate.check(old, request_id="pr-17", **other)
        assert gate.status().head == head
        assert gate.check(improved(old), name="big", request_id="pr-17").repeated

    def test_a_renamed_candidate_is_known_by_what_it_was_called(self, gate, old):
        gate.check(old, name="a (1)")
        gate.check(old, name="a (1)", request_id="x")  # recorded as "a (1) (2)"
        assert gate.check(old, name="a (1)", request_id="x").repeated
        gate.check(old, request_id="y")
        assert gate.check(old, request_id="y").repeated
        with pytest.raises(RequestConflict):
            gate.check(old, name="a", request_id="x")

    def test_whether_a_request_is_refused_does_not_depend_on_outcomes(self, tmp_path, monkeypatch, old):
        said = []
        for world, outcomes in enumerate((improved(old), old)):
            monkeypatch.setenv("EVERHOLD_HOME", str(tmp_path / f"home {world}"))
            gate = Gate.create(tmp_path / f"{world}.everhold", old)
            gate.check(old, name="a", request_id="x")
            again = gate.check(outcomes, name="a", request_id="x")
            with pytest.raises(RequestConflict) as caught:
                gate.check(outcomes, name="b", request_id="x")
            said.append((again, str(caught.value)))
        assert said[0] == said[1]

    def test_gaps_are_counted_for_the_evaluator_and_are_no_part_of_the_verdict(self, gate, old):
        noise = shuffled(old)
        whole = gate.check(noise, name="x")
        odd = dict(zip(noise, ("maybe", 2, None, float("nan"), -1, 0.5, ""), strict=False))
        broken = {**noise, **odd}
        del broken["case-99"], broken["case-98"]
        assert not gate.gaps(noise)
        gaps = gate.gaps(broken)
        assert (gaps.missing, gaps.strange, gaps.unclear, gaps.cases) == (5, 3, 1, 400)
        assert (
            str(gaps) == "of 400 cases: 5 without an outcome, 3 with one that is not a score, 1 that neither pass nor fail"
        )
        before = gate.status()
        with pytest.raises(InvalidOutcomes, match="5 without an outcome"):
            gate.check(broken, require_all=True)
        assert gate.status() == before
        kept = gate.check(broken, name="y")
        assert (kept.state, kept.reason) == (whole.state, whole.reason)
        assert not any(word in kept.to_json() for word in ("without", "score", "missing"))
        assert gate.check(noise, require_all=True).state == "kept"

    def test_equal_outcomes_cannot_be_recognised_in_public_files(self, gate, old):
        """Which candidates do the same on the sealed cases is not disclosed: records of equal ones differ."""
        same = shuffled(old)
        for _ in range(3):
            gate.check(same)
        records = [act.begun for act, _ in gate.study.ready().journal.recorded_acts]
        assert len({begun.asked[0]["digest"] for begun in records}) == 3
        gate.study._holdout.pause()

    def test_names_are_lines_of_text_and_told_apart(self, gate, old):
        assert gate.check(old, name="a").name == "a"
        assert gate.check(old, name="a").name == "a (2)"
        for wrong in ("", " ", "a\nb", "a\u2028b", "x" * 201, 5, "\ud800"):
            with pytest.raises(SettingError, match="name"):
                gate.check(old, name=wrong)
        assert gate.status().checks == 2

    def test_the_same_bytes_are_never_promoted_and_cost_nothing(self, tmp_path, old):
        gate = Gate.create(tmp_path / "gate.everhold", old, artifact=b"prompt 1")
        lucky = improved(old)  # noise between two runs of the same thing
        assert gate.check(lucky, artifact=b"prompt 1").state == "same"
        assert gate.status().checks == 0
        assert gate.check(shuffled(old), artifact=b"prompt 2").state == "kept"
        assert gate.check(lucky, artifact=b"prompt 2").state == "kept"  # checked before: no second roll of the dice
        assert gate.status().checks == 1
        assert gate.check(lucky, artifact=b"prompt 3").promoted
        assert gate.check(lucky, artifact=b"prompt 3").state == "same"

    def test_a_file_for_an_artifact(self, gate, old, tmp_path):
        with pytest.raises(InvalidOutcomes, match="cannot be read"):
            gate.check(old, artifact=tmp_path / "nothing.md")

    def test_a_url_is_refused_without_printing_it(self, gate):
        with pytest.raises(InvalidOutcomes, match="given as a URL") as caught:
            gate.check("postgresql://reader:hunter2@db/clinic?table=outcomes")
        assert "hunter2" not in str(caught.value)


class TestContracts:
    def test_scores_and_several_runs(self, tmp_path):
        rng = np.random.default_rng(0)
        old = {str(k): rng.random(3).tolist() for k in range(600)}
        gate = Gate.create(tmp_path / "gate.everhold", old)
        assert gate.status().outcomes == "score"
        assert not gate.check({case: rng.permutation(runs).tolist() for case, runs in old.items()}).promoted
        assert gate.check({case: [min(one + 0.2, 1.0) for one in runs] for case, runs in old.items()}).promoted

    def test_by_asks_for_more(self, tmp_path):
        old = cases(1_000)
        new = improved(old, 0.2)  # about 0.1 better
        easy = Gate.create(tmp_path / "easy.everhold", old, by=0.02)
        hard = Gate.create(tmp_path / "hard.everhold", old, by=0.2, new_budget="another margin")
        assert easy.check(new).promoted
        assert not hard.check(new).promoted

    def test_final_promotes_more_often_and_certifies_the_end(self, tmp_path):
        old = cases(300)
        new = improved(old, 0.1, seed=3)
        each = Gate.create(tmp_path / "each.everhold", old)
        final = Gate.create(tmp_path / "final.everhold", old, certify="final", new_budget="to compare")
        for gate in (each, final):
            for seed in range(20):
                gate.check(shuffled(old, 0.02, seed=seed))
        assert not each.check(new).promoted
        found = final.check(new)
        assert found.promoted
        assert not found.certified
        said = str(final.status())
        assert "one standard error" in said
        assert "plain 95 % interval" not in said
        assert "plain 95 % interval" in str(each.status())
        total = final.finish()
        assert total.low < total.gain
        assert total == final.finish()  # recorded, and returned again

    @pytest.mark.parametrize("by", [0.0, 0.02])
    def test_certified_promotions_add_up(self, tmp_path, by):
        """Two promotions are certified, and much noise besides: the total is at least what they certify together."""
        old = cases(1_000)
        gate = Gate.create(tmp_path / "gate.everhold", old, by=by)
        first = improved(old, 0.3, seed=1)
        second = improved(first, 0.4, seed=2)
        assert gate.check(first).promoted
        assert gate.check(second).promoted
        gate._gain = lambda holdout, plan, *_: plan.disclosed(10, -400)  # a bad draw
        total = gate.finish()
        assert total.low == 2 * gate.rules.by / SCORE_ONE
        assert total.certified
        assert gate.finish() == total

    def test_generations(self, tmp_path, old):
        gate = Gate.create(tmp_path / "gate.everhold", old, generation_size=3)
        best = improved(old, 0.5, seed=9)
        assert gate.check(shuffled(old), name="a", request_id="a").verdict == "wait"
        assert gate.check(best, name="b", request_id="b").state == "waiting"
        assert gate.check(best, name="b", request_id="b").state == "waiting"  # asked again: entered once
        assert gate.status().waiting == 2
        found = gate.check(shuffled(old, seed=5), name="c", request_id="c")
        assert not found.promoted  # another one was
        assert (found.winner, found.checks, found.waiting) == ("b", 1, 0)
        assert "another candidate of its generation" in found.reason
        for name, promoted in (("a", False), ("b", True), ("c", False)):
            assert gate.check(old, name=name, request_id=name).promoted is promoted
            with pytest.raises(RequestConflict):
                gate.check(old, name="other", request_id=name)
        gate.check(shuffled(best), name="d")
        assert Gate(gate.path).status().waiting == 1
        with pytest.raises(InvalidOutcomes, match="wait"):
            gate.finish()
        assert not gate.decide(request_id="decide").promoted
        assert not gate.decide(request_id="decide").promoted
        assert gate.status().checks == 2
        with pytest.raises(InvalidOutcomes, match="no candidate waits"):
            gate.decide()

    def test_candidates_of_an_interrupted_check_still_wait(self, tmp_path, old, monkeypatch):
        gate = Gate.create(tmp_path / "gate.everhold", old, generation_size=2)
        best = improved(old, 0.5, seed=9)
        gate.check(best, name="b", request_id="b")

        def fails(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("everhold.gate.gate.promoted_index", fails)
            with pytest.raises(KeyboardInterrupt):
                gate.check(old, name="c", request_id="c")
        again = Gate(gate.path)
        assert again.status().waiting == 2
        assert again.check(best, name="b", request_id="b").promoted  # the generation is full: it is checked now
        status = again.status()
        assert (status.checks, status.interrupted, status.waiting) == (2, 1, 0)

    @pytest.mark.parametrize("torn", [b'{"kind": "cand', b"\xc3", b"1\n", b"[]\n", b'{"name": "x"}\n', "\u2028".encode()])
    def test_a_torn_line_loses_nothing_else(self, tmp_path, old, torn):
        gate = Gate.create(tmp_path / "gate.everhold", old, generation_size=3)
        gate.check(old, name="a")
        with (tmp_path / "gate.everhold.waiting.jsonl").open("ab") as file:
            file.write(torn)
        gate.check(old, name="b")
        assert gate.status().waiting == 2
        assert gate.check(improved(old, 0.5), name="c").promoted

    def test_visible_cases_screen_for_nothing(self, tmp_path, old):
        gate = Gate.create(tmp_path / "gate.everhold", old, visible=0.25)
        status = gate.status()
        assert (status.cases, status.visible) == (300, 100)
        visible = set(gate.visible)
        worse = {case: 0 if case in visible else 1 for case in old}
        assert gate.check(worse).state == "screened"
        assert gate.status().checks == 0
        assert gate.check(improved(old, 0.5)).promoted

    def test_visible_cases_by_name(self, tmp_path, old):
        gate = Gate.create(tmp_path / "gate.everhold", old, visible=["case-1", "case-2"])
        assert sorted(gate.visible) == ["case-1", "case-2"]

    def test_it_ends_when_it_cannot_promote_any_more(self, tmp_path):
        gate = Gate.create(tmp_path / "gate.everhold", dict.fromkeys("abcdefgh", 0))
        while not gate.status().used_up:
            gate.check(dict.fromkeys("abcdefgh", 0))
        with pytest.raises(GateUsedUp, match="cannot reach"):
            gate.check(dict.fromkeys("abcdefgh", 1))
        assert gate.status().left == {"3": 0, "6": 0}

    def test_nothing_is_checked_after_the_last_act(self, gate, old):
        gate.finish()
        with pytest.raises(GateUsedUp, match="last act"):
            gate.check(improved(old))
        assert gate.status().finished

    def test_a_step_ends_the_gate_when_it_cannot_be_certified_any_more(self, tmp_path, old):
        gate = Gate.create(tmp_path / "gate.everhold", old, step=0.08)
        status = gate.status()
        assert status.left_at_first == status.left
        assert status.left["8"] >= 1
        assert status.smallest <= 0.08
        checks = 0
        while not gate.status().used_up:
            assert gate.status().smallest <= 0.0801 or gate.status().left["8"] == 0
            gate.check(shuffled(old, seed=checks))
            checks += 1
            assert checks < 500
        assert checks > 3
        with pytest.raises(GateUsedUp, match="steps of 8 points"):
            gate.check(improved(old, 0.9))
        status = gate.status()
        assert (status.left, status.smallest, status.checks) == ({"8": 0}, None, checks)
        assert "cannot certify promotions of 8 points any more" in str(status)
        plain = Gate.create(tmp_path / "plain.everhold", old, new_budget="without a step")
        for seed in range(checks):
            plain.check(shuffled(old, seed=seed))
        assert not plain.status().used_up  # larger ones can be
        assert plain.status().smallest > 0.08
        assert plain.check(improved(old, 0.9)).promoted

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (
                {"step": 0.03},
                "first check certifies steps of .* points. After .* it takes about [0-9,]+ cases. Nothing was made. With",
            ),
            ({"step": 0.03, "outcomes": "score"}, "Nothing was made"),
            ({"step": 0.03, "generation_size": 20}, "one by one with 400 cases"),
            ({"step": 0.004, "certify": "final"}, "a total gain in steps of 0.4 points"),
            ({"step": 0.03, "outcomes": "pass", "privacy": eh.Privacy(epsilon=5.0)}, "one by one with 400 cases"),
        ],
    )
    def test_a_step_that_cannot_be_certified_stops_before_anything_is_made(self, tmp_path, old, given, said):
        with pytest.raises(SettingError, match=said):
            Gate.create(tmp_path / "gate.everhold", old, **given)
        assert list(tmp_path.iterdir()) == []
        Gate.create(tmp_path / "gate.everhold", old, step=0.1)

    def test_a_total_in_small_steps_can_be_certified(self, tmp_path, old):
        assert Gate.create(tmp_path / "gate.everhold", old, step=0.03, certify="final").status().step == 0.03

    def test_a_new_gate_says_never_and_a_used_one_any_more(self, tmp_path):
        old = cases(300)
        gate = Gate.create(tmp_path / "gate.everhold", old)
        assert "3 points better and changes 10 % of the cases is probably not promoted with 300 cases." in str(gate.status())
        big = Gate.create(tmp_path / "big.everhold", {f"big-{k}": k % 2 for k in range(600)})
        assert big.status().left["6"] >= 1
        checks = 0
        while big.status().left["6"]:
            big.check({f"big-{k}": k % 2 for k in range(600)})
            checks += 1
            assert checks < 2_000
        assert "6 points better and changes 10 % of the cases is probably not promoted any more" in str(big.status())

    @pytest.mark.parametrize("holes", [None, float("nan"), "", [], [1, None]])
    def test_an_incumbent_with_holes_is_refused(self, tmp_path, old, holes):
        """Each would count as a failure, and the next candidate that passes would be certified better."""
        broken = {case: holes if number % 2 else value for number, (case, value) in enumerate(old.items())}
        with pytest.raises(InvalidOutcomes, match="200 of the incumbent's 400 cases have no outcome"):
            Gate.create(tmp_path / "gate.everhold", broken)
        assert list(tmp_path.iterdir()) == []
        Gate.create(tmp_path / "gate.everhold", broken, allow_missing=True)

    def test_an_incumbent_may_fail_with_an_error(self, tmp_path, old):
        failed = {case: "error" if number % 2 else value for number, (case, value) in enumerate(old.items())}
        assert Gate.create(tmp_path / "gate.everhold", failed).status().outcomes == "pass"

    @pytest.mark.parametrize(
        "wrong",
        [
            {"by": -0.1}, {"by": 1.0}, {"certify": "some"}, {"generation_size": 0}, {"confidence": 1.0}, {"visible": 1.0},
            {"visible": ["nothing"]}, {"outcomes": "words"}, {"new_budget": " "}, {"visible": 0.999},
            {"step": 0.0}, {"step": 1.0}, {"step": "3"}, {"step": 0.02, "by": 0.05},
        ],
    )  # fmt: skip
    def test_settings_that_make_no_sense_leave_nothing_behind(self, tmp_path, wrong):
        with pytest.raises(SettingError):
            Gate.create(tmp_path / "gate.everhold", cases(50), **wrong)
        assert list(tmp_path.iterdir()) == []
        Gate.create(tmp_path / "gate.everhold", cases(50))


class TestRecord:
    def test_audit_log_and_replay(self, gate, old):
        gate.check(improved(old), name="new")
        gate.check(shuffled(old))
        assert gate.audit().ok
        log = eh.Holdout.open(gate.path, data=_rows(gate)).findings()
        assert [one.value_text for one in log] == ["promoted “new”", "kept the incumbent"]

    def test_a_forged_verdict_does_not_pass_an_audit(self, gate, old, monkeypatch):
        """A record whose result does not follow from its outcome."""
        from everhold.ledger import gate_check

        real = gate_check.CheckPlan.result

        def forged(self, outcome, price):
            return {**real(self, outcome, price), "by": 0.5}

        with monkeypatch.context() as patch:
            patch.setattr(gate_check.CheckPlan, "result", forged)
            gate.check(improved(old))
        assert not gate.audit().ok

    def test_results_read_back_equal(self, gate, old):
        found = gate.check(improved(old))
        assert CheckResult.from_json(found.to_json()) == found
        assert json.loads(found.to_json())["verdict"] == "promote"
        status = gate.status()
        assert GateStatus.from_json(status.to_json()) == status
        total = gate.finish()
        assert TotalGain.from_json(total.to_json()) == total
        for one in (found, status, total):
            assert str(one)
            assert repr(one)

    def test_the_ledger_holds_no_outcome_and_no_case(self, gate, old):
        gate.check(improved(old))
        content = gate.path.read_bytes() + gate.path.with_name("gate.everhold.gate.json").read_bytes()
        assert b"case-1" not in content

    @pytest.mark.parametrize("changed", [{"by": 1}, {"certify": "final"}, {"confidence": 0.5}, {"step": 0.5}])
    def test_the_contract_cannot_be_changed(self, gate, changed):
        place = gate.path.with_name("gate.everhold.gate.json")
        place.write_text(json.dumps({**json.loads(place.read_text()), **changed}))
        with pytest.raises(LedgerError, match="other rules"):
            Gate(gate.path)

    def test_no_promotion_is_no_gain(self, gate):
        found = gate.finish()
        assert (found.gain, found.low, found.promotions) == (0.0, 0.0, 0)
        assert "no promotion" in str(found)

    def test_lost_outcomes_are_noticed_before_anything_is_charged(self, gate, old):
        gate.check(improved(old), name="new")
        gate.release()
        shutil.rmtree(gate.path.with_name("gate.everhold.outcomes"))
        with pytest.raises(LedgerError, match=r"gate\.everhold\.outcomes"):
            Gate(gate.path).check(old)
        assert gate.status().checks == 1


def _rows(gate):
    from everhold.gate.files import private_table

    gate.release()
    return private_table(gate.study.cases.sealed, gate.study.sealed_outcomes(gate.rules.first))


class TestNonInterference:
    def test_other_cases_with_the_same_bits_give_the_same_bytes(self, tmp_path, monkeypatch):
        """Two sets of private outcomes with the same verdicts: every result and every status is equal."""
        monkeypatch.setattr("everhold.ledger.key_file.secrets.token_hex", lambda size: "ab" * size)
        seen = []
        for world in range(2):
            monkeypatch.setenv("EVERHOLD_HOME", str(tmp_path / f"home {world}"))
            old = cases(300, seed=10 + world, share=0.5 + 0.1 * world)
            gate = Gate.create(tmp_path / f"g{world}.everhold", old)
            said = [str(gate.check(improved(old, 0.4, seed=world), name="new"))]
            said += [str(gate.check(shuffled(old, 0.05 + 0.05 * world, seed=world), name="x")) for _ in range(3)]
            try:
                gate.check({"nothing": 1})
            except InvalidOutcomes as error:
                said.append(str(error))
            said.append(str(gate.status()))
            seen.append(said)
        assert seen[0] == seen[1]


class TestWords:
    def test_an_audit_speaks_of_checks_and_promotions(self, gate, old):
        gate.check(shuffled(old))
        gate.check(improved(old))
        found = gate.audit()
        assert str(found) == "audit: ok, 2 checks with 1 promotion replayed without the data"
        assert (found.to_dict()["checks"], found.to_dict()["promotions"]) == (2, 1)

    def test_the_incumbents_name_again_is_pointed_out(self, gate, old):
        new = improved(old)
        assert not gate.check(new, name="mid").is_incumbent
        again = gate.check(new, name="mid")
        assert (again.state, again.is_incumbent) == ("kept", True)
        assert "--request-id" in str(again)
        assert type(again).from_dict(again.to_dict()) == again
        assert not gate.check(shuffled(old), name="other").is_incumbent

    def test_an_older_copy_says_so(self, gate, old, tmp_path):
        gate.release()
        for name in ("", ".key", ".gate.json", ".cases"):
            shutil.copy(f"{gate.path}{name}", f"{tmp_path / 'copy'}{name}")
        assert not Gate(tmp_path / "copy").status().older
        gate.check(shuffled(old))
        copy = Gate(tmp_path / "copy").status()
        assert copy.older
        assert "older copy" in str(copy)
        assert not gate.status().older


class TestCannotBeReset:
    """Six ways to start again with a full budget, as reviewers of such gates have found them."""

    def test_by_another_number_of_cases(self, gate, old):
        some = dict(list(old.items())[:300])
        with pytest.raises(RowsInUse):
            Gate.create(gate.path.with_name("fewer.everhold"), some)
        with pytest.raises(RowsInUse):
            Gate.create(gate.path.with_name("more.everhold"), old | {f"new-{k}": 1 for k in range(1_000)})

    def test_by_another_contract(self, gate, old):
        for other in ({"by": 0.01}, {"certify": "final"}, {"generation_size": 9}, {"confidence": 0.9}):
            with pytest.raises(RowsInUse):
                Gate.create(gate.path.with_name("other.everhold"), old, **other)

    def test_by_another_path_or_a_deleted_one(self, gate, old, tmp_path):
        with pytest.raises(RowsInUse):
            Gate.create(tmp_path / "elsewhere.everhold", old)
        gate.release()
        for path in gate.path.parent.glob("gate.everhold*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        with pytest.raises(RowsInUse, match="made on"):
            Gate.create(gate.path, old)

    def copied(self, gate, folder):
        gate.release()
        folder.mkdir()
        for path in gate.path.parent.glob("gate.everhold*"):
            (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / path.name)
        return Gate(folder / "gate.everhold")

    def test_by_an_older_copy(self, gate, old, tmp_path):
        copy = self.copied(gate, tmp_path / "copies")
        gate.check(shuffled(old))
        gate.release()
        with pytest.raises(LedgerError, match="older copy"):
            copy.check(shuffled(old))

    def test_by_a_copy_that_stays_open(self, gate, old, tmp_path):
        """A long-lived process notices that a copy has gone on."""
        copy = self.copied(gate, tmp_path / "copies")
        gate.check(old)  # open, and paused
        copy_of_now = self.copied(gate, tmp_path / "later")
        gate.check(old)
        gate.release()
        assert gate.status().checks == 2
        for one in (copy, copy_of_now):
            with pytest.raises(LedgerError):
                one.check(improved(old))

    def test_by_two_copies_that_go_on_at_once(self, gate, old, tmp_path):
        one, other = gate, self.copied(gate, tmp_path / "copies")
        one.require_ready()
        other.require_ready()
        one.check(shuffled(old))
        with pytest.raises(LedgerError, match=r"history|copy"):
            other.check(shuffled(old))

    def test_a_gate_from_elsewhere_is_entered_when_it_is_used(self, gate, old, tmp_path, monkeypatch):
        monkeypatch.setenv("EVERHOLD_HOME", str(tmp_path / "another home"))
        moved = Gate(gate.path)
        moved.check(shuffled(old))
        with pytest.raises(RowsInUse):
            Gate.create(tmp_path / "second.everhold", old)
        copy = self.copied(moved, tmp_path / "copies")
        moved.check(shuffled(old))
        with pytest.raises(LedgerError):
            copy.check(shuffled(old))

    def test_by_saying_what_is_expected(self, gate, old):
        for expected in ({}, dict.fromkeys(old, 1)):
            with pytest.raises(RowsInUse):
                Gate.create(gate.path.with_name("other.everhold"), old, expected=expected)

    def test_by_other_spellings_of_the_ids(self, gate, old):
        with pytest.raises(RowsInUse):
            Gate.create(gate.path.with_name("other.everhold"), {f" {case.upper()} ": one for case, one in old.items()})

    def test_by_putting_a_set_together(self, tmp_path):
        for number in range(11):
            Gate.create(tmp_path / f"{number}.everhold", {f"{number}-{case}": 1 for case in range(100)})
        with pytest.raises(RowsInUse, match="10 more"):
            Gate.create(tmp_path / "mixed.everhold", {f"{number}-{case}": 1 for number in range(11) for case in range(9)})

    def test_by_another_split(self, gate, old):
        for visible in (0.2, 0.5, ["case-1"]):
            with pytest.raises(RowsInUse):
                Gate.create(gate.path.with_name("split.everhold"), old, visible=visible)

    def test_every_share_makes_the_same_cases_visible_first(self, tmp_path, old):
        some = Gate.create(tmp_path / "some.everhold", old, visible=0.2)
        more = Gate.create(tmp_path / "more.everhold", old, visible=0.5, new_budget="to compare")
        assert set(some.visible) < set(more.visible)

    def test_by_the_text_of_an_error(self, gate, old):
        """An invalid file says nothing about the sealed outcomes: the same words whatever they are."""
        said = set()
        for candidate in (improved(old), shuffled(old), old):
            with pytest.raises(InvalidOutcomes) as error:
                gate.check(candidate | {"strange": 1})
            said.add(str(error.value))
        assert len(said) == 1

    def test_by_another_incumbent(self, gate, old):
        with pytest.raises(RowsInUse):
            Gate.create(gate.path.with_name("next.everhold"), improved(old))

    def test_a_reason_is_recorded(self, gate, old):
        second = Gate.create(gate.path.with_name("second.everhold"), old, new_budget="the cases were drawn again")
        assert "drawn again" in str(second.status())
        assert second.rules.new_budget == "the cases were drawn again"
        assert "drawn again" in eh.Registry().studies()[-1].reason

    def test_other_cases_with_the_same_ids(self, tmp_path):
        answers = {f"{k}": k for k in range(50)}
        others = {f"{k}": -k - 1 for k in range(50)}
        Gate.create(tmp_path / "one.everhold", dict.fromkeys(answers, 1), expected=answers)
        Gate.create(tmp_path / "two.everhold", dict.fromkeys(others, 1), expected=others)
        with pytest.raises(RowsInUse):
            Gate.create(tmp_path / "three.everhold", dict.fromkeys(answers, 0), expected=answers)

    def test_other_cases_are_welcome(self, gate):
        Gate.create(gate.path.with_name("new.everhold"), {f"new {k}": 1 for k in range(100)})

    def test_a_gate_that_could_not_be_made_leaves_nothing(self, tmp_path, old, monkeypatch):
        def fails(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("everhold.gate.rules.GateRules.save", fails)
            with pytest.raises(KeyboardInterrupt):
                Gate.create(tmp_path / "gate.everhold", old)
        assert list(tmp_path.iterdir()) == []
        assert Gate.create(tmp_path / "gate.everhold", old).status().checks == 0

    def test_making_a_gate_touches_no_file_of_another(self, gate, old):
        before = {path.name: path.stat().st_mtime_ns for path in gate.path.parent.iterdir()}
        gate.path.rename(gate.path.with_name("moved"))
        with pytest.raises(LedgerError, match="exists already"):
            Gate.create(gate.path, {f"new {k}": 1 for k in range(100)}, artifact="missing")
        gate.path.with_name("moved").rename(gate.path)
        assert {path.name: path.stat().st_mtime_ns for path in gate.path.parent.iterdir()} == before
