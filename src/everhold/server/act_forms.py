"""The form of an act, made from its description; and what an act returned, as the page shows it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from pydantic import ValidationError

from everhold.acts import ACTS, AnyAct, as_body, as_sent, questions_of, sent_question
from everhold.errors import EverholdError, QuestionError
from everhold.ledger.logged_act import kind_of_act
from everhold.queries.answer import Answer
from everhold.queries.disclosed import Choice, Decision, Verdict
from everhold.server.forms import FIELDS, AnswerCard, FormField, QuestionForm
from everhold.server.request_schemas import ActBody, act_body
from everhold.server.tokens import Token
from everhold.statistics.finding import Finding, Shares
from everhold.statistics.means import Mean, Share
from everhold.statistics.parameters import Form, Parameter, parameters
from everhold.trial import as_statistic

if TYPE_CHECKING:
    from everhold.data.schema import Schema

__all__ = [
    "ACT_BODIES",
    "ActForm",
    "act_cards",
    "act_links",
    "fingerprint",
    "is_final",
    "round_links",
    "shown_fields",
    "statistic_fields",
    "takes_questions",
]

ACT_BODIES: dict[str, type[ActBody]] = {name: act_body(kind) for name, kind in ACTS.items()}
"""What a program would send for each act: a form is checked as that is."""
PLAIN = "share"
"""The kind of question that is sent as text."""
_OF = "of_"  # before the names of a statistic's own fields: acts have fields of the same names
_QUESTIONS: tuple[Form, ...] = ("question", "questions")


def takes_questions(kind: type[AnyAct]) -> bool:
    """Whether an act is about questions, which may be statistics."""
    return any(parameter.form in _QUESTIONS for parameter in parameters(kind))


def act_links(token: Token, study: str) -> list[dict[str, Any]]:
    """Every act, and whether a token allows it."""
    return [
        {
            "name": name,
            "title": kind.title,
            "about": kind.__doc__,
            "when": kind.when,
            "costs": kind.costs,
            "allowed": token.allows(kind.permission, study),
            "final": is_final(kind),
        }
        for name, kind in ACTS.items()
    ]


def is_final(kind: type[AnyAct]) -> bool:
    """Whether an act has to be confirmed: what only custodians may do cannot be undone."""
    return kind.permission == "manage"


def round_links(token: Token, study: str) -> list[tuple[str, str, str]]:
    """Acts about an earlier round that a token allows: name, title, and the field that names the round."""
    return [
        (name, kind.title, parameter.name)
        for name, kind in ACTS.items()
        for parameter in parameters(kind)
        if parameter.form == "round" and token.allows(kind.permission, study)
    ]


def shown_fields(kind: type[AnyAct]) -> list[dict[str, Any]]:
    """The fields of an act, for its form."""
    return [
        {
            "name": parameter.name,
            "label": parameter.label,
            "about": parameter.about,
            "form": parameter.form,
            "required": parameter.required,
        }
        for parameter in parameters(kind)
    ]


def statistic_fields(kind: type[AnyAct]) -> list[FormField]:
    """Fields of the statistics that an act may be about; what the act asks itself is not asked twice."""
    if not takes_questions(kind):
        return []
    own = {parameter.name for parameter in parameters(kind) if parameter.form not in _QUESTIONS}
    fields = []
    for form_field in FIELDS.values():
        kinds = tuple(name for name in form_field.kinds if not (name == PLAIN and form_field.name in own))
        fields.append(replace(form_field, name=_OF + form_field.name, kinds=kinds))
    return fields


@dataclass(frozen=True, slots=True)
class ActForm:
    """The form of an act, as it was filled in.

    Attributes:
        kind: the act.
        texts: what stands in its fields.
        what: the statistic of its questions.
        more: what stands in the fields of that statistic.
    """

    kind: type[AnyAct]
    texts: Mapping[str, str] = field(default_factory=dict)
    what: str = PLAIN
    more: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, kind: type[AnyAct], given: Mapping[str, Any]) -> ActForm:
        """From what a browser sent; files and unknown fields do not count."""
        sent = {name: value.strip() for name, value in given.items() if isinstance(value, str)}
        texts = {parameter.name: sent[parameter.name] for parameter in parameters(kind) if sent.get(parameter.name)}
        more = {form_field.name: sent[form_field.name] for form_field in statistic_fields(kind) if sent.get(form_field.name)}
        return cls(kind, texts, sent.get("what") or PLAIN, more)

    @property
    def complete(self) -> bool:
        """Whether every field that is needed has something in it."""
        return all(
            parameter.name in self.texts
            for parameter in parameters(self.kind)
            if parameter.required and parameter.role.least
        )

    def act(self, request_id: str | None = None) -> tuple[AnyAct, str | None]:
        """The act, checked as if a program had sent it, and its request id."""
        body: dict[str, Any] = {}
        for parameter in parameters(self.kind):
            text = self.texts.get(parameter.name, "")
            if text or (parameter.form == "questions" and parameter.required):
                body[parameter.name] = self._value(parameter, text)
            elif parameter.required:
                raise QuestionError(f"the field {parameter.label!r} is empty. {parameter.about}")
        if request_id is not None:
            body["request_id"] = request_id
        try:
            checked = ACT_BODIES[self.kind.name].model_validate_json(json.dumps(body))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"][:2])
            raise QuestionError(f"{where}: {first['msg']}. Nothing was charged.") from None
        return checked.act(self.kind.name), checked.request_id

    def _value(self, parameter: Parameter, text: str) -> Any:
        if parameter.form == "question":
            return as_sent(self._question(text))
        if parameter.form == "questions":
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            if len(lines) < parameter.role.least:
                raise QuestionError(f"the field {parameter.label!r} is empty. {parameter.about} Type one per line.")
            return [as_sent(self._question(line)) for line in lines]
        return parameter.parse(text)

    def _question(self, text: str) -> Any:
        """A question, or a statistic: by its fields, or as JSON."""
        if text.startswith("{"):
            try:
                return sent_question(json.loads(text))
            except (ValueError, RecursionError) as error:
                if isinstance(error, EverholdError):
                    raise
                raise QuestionError(
                    f"{text[:60]!r} is not JSON. A statistic is written as "
                    '{"statistic": "mean", "arguments": {"question": "bmi"}}.'
                ) from None
        more = {name.removeprefix(_OF): value for name, value in self.more.items()}
        asked = QuestionForm(self.what, text, more).statistic()
        return text if isinstance(asked, Share) and asked.given is None else asked


def fingerprint(act: AnyAct) -> str:
    """Tells whether an act is the one that was previewed."""
    sent = json.dumps([act.name, as_body(act)], sort_keys=True)
    return hashlib.sha256(sent.encode()).hexdigest()[:32]


def title_of(question: object) -> str:
    """A question or a statistic in a line."""
    sent = as_sent(question)
    if isinstance(sent, str):
        return sent
    given, name = sent["arguments"], sent["statistic"]
    if name == "quantile" and given.get("level") == 0.5:
        given, name = {key: value for key, value in given.items() if key != "level"}, "median"
    return f"{name}({', '.join(str(value) for value in given.values())})"


def act_cards(act: AnyAct, result: Any, question: str = "", schema: Schema | None = None) -> list[AnswerCard]:
    """What an act returned. `question`: of the earlier answer, where the act is about one."""
    if isinstance(result, list):
        return [
            _result(each, question, schema, small=True) for each, question in zip(result, questions_of(act), strict=True)
        ]
    asked = questions_of(act)
    if isinstance(result, Answer | Finding | Shares) and asked:
        return [_result(result, asked[0], schema)]
    if isinstance(result, Answer):
        card = AnswerCard.of(result, Share("") if result.scale == "share" else Mean(""), question, schema=schema)
        return [replace(card, kind=_capitalised(kind_of_act(act.name)), surprise=False)]
    return [_disclosed(act, result, asked)]


def _result(result: Any, question: object, schema: Schema | None, *, small: bool = False) -> AnswerCard:
    return AnswerCard.of(result, as_statistic(question), title_of(question), small=small, schema=schema)


def _disclosed(act: AnyAct, result: Any, asked: Sequence[object]) -> AnswerCard:
    """A choice, a bit or a verdict; of an act that is new here, what it says of itself."""
    title, value, verdict, sentence, rounds = " or ".join(title_of(question) for question in asked), "", "", "", ""
    if isinstance(result, Choice):
        title = f"{'About the' if result.noisy else 'The'} largest of {result.candidates:,}"
        value = title_of(asked[result.index])
        sentence = f"Line {result.index + 1:,} of {result.candidates:,}. Nothing else was disclosed, not even its value."
    elif isinstance(result, Decision):
        verdict = f"{'Yes' if result.yes else 'No'}, on the private rows{', up to noise' if result.noisy else ''}."
        sentence = "This is one bit about these rows, not a claim about the population."
    elif isinstance(result, Verdict):
        verdict, _, sentence = _capitalised(str(result).rpartition(" (")[0]).partition(": ")
        sentence = f"In the population {sentence}." if result.outcome != "neither" else f"{_capitalised(sentence)}."
        rounds = f"Judged at {result.price:.1f} nats."
    else:
        verdict = str(result)
    if isinstance(result, Choice | Decision):
        rounds = f"{result.disclosed:.1f} nats disclosed so far."
    if isinstance(result, Decision | Verdict) and len(asked) == 2:
        by = getattr(act, "by", 0.0)
        title = f"Is {title_of(asked[0])} larger than {title_of(asked[1])}{f' by more than {by:g}' if by else ''}"
        title += f" given {given}?" if (given := getattr(act, "given", None)) else "?"
    return AnswerCard(
        title=title,
        value=value,
        sentence=sentence,
        drawn=Markup(""),
        verdict=verdict,
        what="",
        cells=[],
        rounds=rounds,
        surprise=False,
        kind=_capitalised(kind_of_act(act.name)),
    )


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]
