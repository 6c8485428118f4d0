// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a file does not tell, and what is wrong with it, in sentences. Where the same is wrong in many places, it is said once.

use std::collections::BTreeMap;

use piste_kernel::convert::Finding;

/// So many sentences are told; of more of them, how many there are.
const TOLD_MAX: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct Notes {
    told: Vec<String>,
    untold: u64,
    /// Records by the number of the event.
    unknown: BTreeMap<u16, u64>,
    /// Records by event, with what is wrong with the first.
    damaged: BTreeMap<String, (u64, String)>,
    back_in_time: u64,
}

impl Notes {
    pub(crate) fn say(&mut self, what: impl Into<String>) {
        let what = what.into();
        if self.told.contains(&what) {
            return;
        }
        match self.told.len() < TOLD_MAX {
            true => self.told.push(what),
            false => self.untold += 1,
        }
    }

    /// What was found while records became events.
    pub(crate) fn find(&mut self, finding: &Finding) {
        match finding {
            Finding::UnknownEvent { id, records } => *self.unknown.entry(*id).or_default() += records,
            Finding::Damaged { event, records, fault } => {
                let first = || (0, fault.to_string());
                self.damaged.entry(event.clone()).or_insert_with(first).0 += records;
            }
            Finding::BackInTime { records } => self.back_in_time += records,
            other => self.say(other.to_string()),
        }
    }

    pub(crate) fn into_sentences(mut self) -> Vec<String> {
        for (id, records) in std::mem::take(&mut self.unknown) {
            self.say(format!(
                "{records} records of event {id} were discarded: the file does not describe them"
            ));
        }
        for (event, (records, first)) in std::mem::take(&mut self.damaged) {
            self.say(format!(
                "{event}: {records} damaged records were discarded; the first: {first}"
            ));
        }
        if self.back_in_time > 0 {
            let records = self.back_in_time;
            self.say(Finding::BackInTime { records }.to_string());
        }
        if self.untold > 0 {
            self.told.push(format!("and {} more of such", self.untold));
        }
        self.told
    }
}
