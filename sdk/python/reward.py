"""The interface `reward`, as the host calls it."""

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import reward as wit
from wit_world.imports import types, view

from clawhost.episode import read
from clawhost.error import Error
from clawhost.plugin import the_class
from clawhost.reward import Failed, NotApplicable, Reward as Plugin, Verdict
from clawhost.values import Context, about

PLUGIN = the_class(Plugin)

SOURCES = {"outcome": wit.Source_Outcome, "execution": wit.Source_Execution, "judge": wit.Source_Judge}
SCOPES = {"each": wit.Scope.EACH, "group": wit.Scope.GROUP}


def _verdict(verdict: Verdict) -> wit.Verdict:
    if isinstance(verdict, NotApplicable):
        return wit.Verdict_NotApplicable(verdict.why)
    if isinstance(verdict, Failed):
        return wit.Verdict_Failed(verdict.why)
    parts = [types.Signal(name, float(value)) for name, value in verdict.parts.items()]
    card = wit.ScoreCard(float(verdict.value), verdict.confidence, parts, verdict.because, verdict.per_turn, [])
    return wit.Verdict_Scored(card)


class Reward(exports.Reward):
    def describe(self) -> wit.Description:
        reads = [("reads", what) for what in PLUGIN.reads]
        low, high = PLUGIN.range
        return wit.Description(about(PLUGIN, [], reads), low, high, SOURCES[PLUGIN.source](), SCOPES[PLUGIN.scope], [])

    def check(self, options: list[tuple[str, str]]) -> None:
        try:
            PLUGIN.check(Context(0, options))
        except Error as error:
            raise Err(wit.RewardError_InvalidOption(str(error))) from error

    def score(self, context: types.Context, group: view.Group) -> list[wit.Verdict]:
        with group:
            episodes, handles = read(group)
            try:
                verdicts = PLUGIN().score_group(episodes, Context(context.seed, context.options))
            except Error as error:
                raise Err(wit.RewardError_Other(str(error))) from error
            finally:
                for handle in handles:
                    handle.__exit__(None, None, None)
        return [_verdict(verdict) for verdict in verdicts]
