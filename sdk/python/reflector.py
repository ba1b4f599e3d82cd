"""The interface `reflector`, as the host calls it."""

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import reflector as wit
from wit_world.imports import types, view

from clawhost.episode import read
from clawhost.error import Error, ModelError
from clawhost.plugin import the_class
from clawhost.reflector import Entry, Playbook, Proposal, Reflector as Plugin
from clawhost.values import Context, about

PLUGIN = the_class(Plugin)


def _entry(entry: wit.Entry) -> Entry:
    return Entry(entry.text, entry.tags, entry.needs, entry.id, dict(entry.extra))


def _entry_to_wit(entry: Entry) -> wit.Entry:
    return wit.Entry(entry.id, entry.text, entry.tags, entry.needs, list(entry.extra.items()))


def _playbook(playbook: wit.Playbook) -> Playbook:
    entries, tried = [_entry(one) for one in playbook.entries], [_entry(one) for one in playbook.tried]
    return Playbook(playbook.version, entries, dict(playbook.sections), playbook.attempt, tried)


def _proposal(proposal: Proposal) -> wit.Proposal:
    value = proposal.value
    change: wit.Change
    if proposal.kind == "add":
        change = wit.Change_Add(_entry_to_wit(value))
    elif proposal.kind == "update":
        change = wit.Change_Update(_entry_to_wit(value))
    elif proposal.kind == "retire":
        change = wit.Change_Retire(value)
    elif proposal.kind == "merge":
        ids, entry = value
        change = wit.Change_Merge((ids, _entry_to_wit(entry)))
    else:
        change = wit.Change_RewriteSection(value)
    evidence = [wit.Evidence(episode, turns, []) for episode, turns in proposal.evidence]
    return wit.Proposal(change, evidence, proposal.expected_effect, [])


class Reflector(exports.Reflector):
    def describe(self) -> types.About:
        return about(PLUGIN, [], [])

    def check(self, options: list[tuple[str, str]]) -> None:
        try:
            PLUGIN.check(Context(0, options))
        except Error as error:
            raise Err(wit.ReflectError_InvalidOption(str(error))) from error

    def reflect(self, context: types.Context, playbook: wit.Playbook, group: view.Group) -> list[wit.Proposal]:
        with group:
            episodes, handles = read(group)
            try:
                found = PLUGIN().reflect(episodes, _playbook(playbook), Context(context.seed, context.options))
            except ModelError as error:
                raise Err(wit.ReflectError_Model(str(error))) from error
            except Error as error:
                raise Err(wit.ReflectError_Other(str(error))) from error
            finally:
                for handle in handles:
                    handle.__exit__(None, None, None)
        return [_proposal(proposal) for proposal in found]
