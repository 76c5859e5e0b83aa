"""What a holdout says of itself: what to expect, what has been spent, and what was charged before a refusal."""

import warnings

import numpy as np
import pytest

import everhold as eh


def people(size, seed):
    rng = np.random.default_rng(seed)
    return {"age": rng.integers(18, 90, size), "bmi": rng.normal(25, 4, size), "smoker": rng.random(size) < 0.2}


def test_a_small_reference_is_warned_about_with_the_better_choice():
    with pytest.warns(eh.ReferenceWarning, match=r"2,000 rows and the private side 40,000.*eh\.Split.*holdout\.read"):
        small = eh.Holdout(people(40_000, 0), prior=eh.Reference(people(2_000, 1)), seed=0)
    assert "a forecast from it is 5 times as noisy" in small.outlook()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fine = eh.Holdout(people(40_000, 0), prior=eh.Reference(people(20_000, 1)), seed=0)
    assert "noisy" not in fine.outlook()


def test_what_is_foreseen_is_what_comes():
    """The half-widths of the outlook, against the first ask and the first reading of such a share."""
    held = eh.Holdout(people(40_000, 0), prior=eh.Reference(people(20_000, 1)), seed=0)
    said = held.outlook()
    asked, read = (float(part.split("±")[1].split()[0]) for part in said.split(";")[0].split(", "))
    tenth = "age >= 83"  # 7 of 72 years
    preview = held.try_out(tenth)
    assert asked == pytest.approx(preview.interval.half_width, rel=0.1)
    assert read == pytest.approx(preview.read_interval.half_width, rel=0.15)
    mean = held.try_out(eh.Mean("age"))
    assert f"mean of age: ±{mean.interval.half_width:.2g} asked, ±{mean.read.interval.half_width:.2g} read" in said
    assert held.rounds == 0


def test_the_price_in_words_grows_with_what_is_disclosed():
    held = eh.Holdout(people(5_000, 0), prior=eh.Reference(people(5_000, 1)), seed=0)
    assert held.price_text == "the next reading of a share: 1.2 times a plain 95 % interval; other answers are wider"
    for year in range(30, 60):
        held.read(f"age > {year}")
    assert float(held.price_text.split(": ")[1].split()[0]) > 2.0
    assert held.price_text in repr(held)


def test_answers_that_were_charged_come_with_a_refusal():
    """A quantile under a promise takes many questions: those before the refusal are charged, and returned."""
    rng = np.random.default_rng(2)
    wrong = {"age": rng.integers(18, 50, 5_000), "bmi": rng.normal(28, 2, 5_000), "smoker": rng.random(5_000) < 0.6}
    held = eh.Holdout(people(5_000, 0), prior=eh.Reference(wrong), seed=0, half_width=0.12)
    refused, before = None, 0
    for level in np.linspace(0.02, 0.98, 300):
        before = held.rounds
        try:
            held.quantile("age", float(level), low=10, high=90, given="smoker OR bmi > 24")
        except eh.PrecisionExhausted as refusal:
            refused = refusal
            break
    assert refused is not None, "the promise was never used up"
    assert held.rounds > before
    assert {one.round for one in refused.answers} >= set(range(before + 1, held.rounds + 1))


def test_a_statistic_can_be_checked():
    held = eh.Holdout(people(500, 0), prior=eh.Reference(people(500, 1)), seed=0)
    held.check(eh.Mean("bmi"))
    held.check("age > 40")
    with pytest.raises(eh.QuestionError, match="age"):
        held.check(eh.Mean("agee"))
    assert held.rounds == 0
