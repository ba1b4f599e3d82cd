//! `clawhost:episode/view`: recorded episodes, read lazily by rewards and reflectors.

use crate::convert;
use crate::state::State;
use clawhost_bindings::environment::clawhost::types::types;
use clawhost_bindings::observer::clawhost::episode::view;
use clawhost_bindings::{EpisodeView, Group};
use clawhost_core::{Ending, Episode};
use std::sync::Arc;
use wasmtime::component::Resource;

/// Most turns per call.
const TURNS: u32 = 64;

impl State {
    fn viewed(&self, handle: &Resource<EpisodeView>) -> wasmtime::Result<Arc<Episode>> {
        let index = self.table.get(handle)?.index;
        self.group.get(index).cloned().ok_or_else(|| wasmtime::Error::msg("this episode is no longer at hand"))
    }
}

impl view::Host for State {}

impl view::HostGroup for State {
    fn size(&mut self, _: Resource<Group>) -> wasmtime::Result<u32> {
        self.host_call("group.size", &[])?;
        Ok(u32::try_from(self.group.len()).unwrap_or(u32::MAX))
    }

    fn episode(&mut self, _: Resource<Group>, index: u32) -> wasmtime::Result<Resource<EpisodeView>> {
        self.host_call("group.episode", &[&index.to_le_bytes()])?;
        let index = index as usize;
        if index >= self.group.len() {
            let size = self.group.len();
            return Err(wasmtime::Error::msg(format!(
                "episode {index} of a group of {size}: the index is out of range"
            )));
        }
        Ok(self.table.push(EpisodeView { index })?)
    }

    fn drop(&mut self, handle: Resource<Group>) -> wasmtime::Result<()> {
        self.table.delete(handle)?;
        Ok(())
    }
}

impl view::HostEpisodeView for State {
    fn id(&mut self, handle: Resource<EpisodeView>) -> wasmtime::Result<String> {
        self.host_call("episode.id", &[])?;
        Ok(self.viewed(&handle)?.id.0.clone())
    }

    fn task(&mut self, handle: Resource<EpisodeView>) -> wasmtime::Result<types::Task> {
        self.host_call("episode.task", &[])?;
        let episode = self.viewed(&handle)?;
        // Extension fields may reveal the answer too: a lesson must not carry it into a playbook.
        let hidden = if self.shows_reference { None } else { Some(Vec::new()) };
        let reference = if self.shows_reference { episode.task.reference.clone() } else { None };
        self.charge(episode.task.input.len() + reference.as_ref().map_or(0, String::len))?;
        let task = convert::task_to(&episode.task);
        Ok(types::Task { reference, extra: hidden.unwrap_or(task.extra), ..task })
    }

    fn tools(&mut self, handle: Resource<EpisodeView>) -> wasmtime::Result<Vec<types::ToolSpec>> {
        self.host_call("episode.tools", &[])?;
        let episode = self.viewed(&handle)?;
        self.charge(episode.tools.iter().map(|tool| tool.input_schema.len() + tool.description.len()).sum())?;
        Ok(episode.tools.iter().map(convert::tool_to).collect())
    }

    fn environment(&mut self, handle: Resource<EpisodeView>) -> wasmtime::Result<String> {
        self.host_call("episode.environment", &[])?;
        Ok(self.viewed(&handle)?.origin.name().to_owned())
    }

    fn turn_count(&mut self, handle: Resource<EpisodeView>) -> wasmtime::Result<u32> {
        self.host_call("episode.turn-count", &[])?;
        Ok(u32::try_from(self.viewed(&handle)?.turns.len()).unwrap_or(u32::MAX))
    }

    fn turns(&mut self, handle: Resource<EpisodeView>, start: u32, count: u32) -> wasmtime::Result<Vec<view::Turn>> {
        self.host_call("episode.turns", &[&start.to_le_bytes(), &count.to_le_bytes()])?;
        let episode = self.viewed(&handle)?;
        let budget = self.limits.observation_bytes;
        let mut bytes = 0usize;
        let mut turns = Vec::new();
        for (index, turn) in (0u32..).zip(&episode.turns).skip(start as usize).take(count.min(TURNS) as usize) {
            bytes +=
                turn.observation.iter().chain([&turn.action]).chain(&turn.tool_results).map(|m| m.len()).sum::<usize>();
            // At least one turn, however long: fewer than requested means "call again", none means the end.
            if bytes > budget && !turns.is_empty() {
                break;
            }
            turns.push(view::Turn {
                index,
                observation: turn.observation.iter().map(convert::message_to).collect(),
                action: convert::message_to(&turn.action),
                tool_results: turn.tool_results.iter().map(convert::message_to).collect(),
                signals: turn.signals.iter().map(convert::signal_to).collect(),
                usage: convert::usage_to(&turn.usage),
                finish: turn.finish.clone(),
                extra: turn.extra.clone(),
            });
        }
        self.charge(bytes)?;
        Ok(turns)
    }

    fn closing(&mut self, handle: Resource<EpisodeView>) -> wasmtime::Result<Vec<types::Message>> {
        self.host_call("episode.closing", &[])?;
        let episode = self.viewed(&handle)?;
        self.charge(episode.closing.iter().map(clawhost_core::Message::len).sum())?;
        Ok(episode.closing.iter().map(convert::message_to).collect())
    }

    fn ending(&mut self, handle: Resource<EpisodeView>) -> wasmtime::Result<view::Ending> {
        self.host_call("episode.ending", &[])?;
        Ok(match &self.viewed(&handle)?.ending {
            Ending::Terminated => view::Ending::Terminated,
            Ending::Truncated(why) => view::Ending::Truncated(why.clone()),
            Ending::Failed(failure) => view::Ending::Failed(failure.to_string()),
        })
    }

    fn signals(&mut self, handle: Resource<EpisodeView>) -> wasmtime::Result<Vec<types::Signal>> {
        self.host_call("episode.signals", &[])?;
        Ok(self.viewed(&handle)?.signals.iter().map(convert::signal_to).collect())
    }

    fn artefact(&mut self, handle: Resource<EpisodeView>, name: String) -> wasmtime::Result<Option<types::Artefact>> {
        self.host_call("episode.artefact", &[name.as_bytes()])?;
        let episode = self.viewed(&handle)?;
        let found = episode.artefacts.iter().find(|artefact| artefact.name == name);
        self.charge(found.map_or(0, |artefact| artefact.bytes.len()))?;
        Ok(found.map(convert::artefact_to))
    }

    fn reward(&mut self, handle: Resource<EpisodeView>) -> wasmtime::Result<Option<f64>> {
        self.host_call("episode.reward", &[])?;
        let episode = self.viewed(&handle)?;
        // A reward function judges what happened, and not what was said about it before.
        Ok(if self.shows_reference { None } else { episode.reward })
    }

    fn drop(&mut self, handle: Resource<EpisodeView>) -> wasmtime::Result<()> {
        self.table.delete(handle)?;
        Ok(())
    }
}
