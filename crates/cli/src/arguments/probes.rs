// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options for probes, of `record` and `enable-event`.

use clap::Args;
use piste_control::interface::{KernelEventKind, KernelRule};

use crate::dynamic::probe;
use crate::failure::Failure;

/// Places that are probed.
#[derive(Args)]
pub(crate) struct ProbeOptions {
    /// Record each time execution reaches a place in a program or library: 'BINARY:SYMBOL[+OFFSET][ ARGUMENT]...'. An ARGUMENT is a value to
    /// record: NAME=%di:s32, or NAME=PARAMETER->MEMBER if BINARY has debug information
    #[arg(long, value_name = "PLACE")]
    pub(crate) uprobe: Vec<String>,
    /// Record each return from a function of a program or library: 'BINARY:SYMBOL[ ARGUMENT]...'
    #[arg(long, value_name = "PLACE")]
    pub(crate) uretprobe: Vec<String>,
    /// Record a static probe (USDT) of a program or library: BINARY:PROVIDER:NAME
    #[arg(long, value_name = "PROBE")]
    pub(crate) usdt: Vec<String>,
    /// Record each time execution reaches a place in the kernel: 'SYMBOL[+OFFSET][ ARGUMENT]...' or '0xADDRESS[+OFFSET][ ARGUMENT]...'
    #[arg(long, value_name = "PLACE")]
    pub(crate) kprobe: Vec<String>,
    /// Record each return from a kernel function: 'SYMBOL[ ARGUMENT]...' or '0xADDRESS[ ARGUMENT]...'
    #[arg(long, value_name = "PLACE")]
    pub(crate) kretprobe: Vec<String>,
}

impl ProbeOptions {
    fn places(&self) -> [(KernelEventKind, &Vec<String>); 5] {
        [
            (KernelEventKind::uprobe, &self.uprobe),
            (KernelEventKind::uretprobe, &self.uretprobe),
            (KernelEventKind::usdt, &self.usdt),
            (KernelEventKind::kprobe, &self.kprobe),
            (KernelEventKind::kretprobe, &self.kretprobe),
        ]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places().iter().all(|(_, places)| places.is_empty())
    }

    /// Their rules; with the name of the only one's event, if the user chose one.
    ///
    /// # Errors
    /// A place does not have the form that its kind needs, its binary is not found, or the name is for more than one.
    pub(crate) fn rules(&self, name: Option<&str>) -> Result<Vec<KernelRule>, Failure> {
        let count: usize = self.places().iter().map(|(_, places)| places.len()).sum();
        if name.is_some() && count != 1 {
            return Err(Failure::new(format!(
                "--name can name only one probe, but there are {count}; enable each with a separate command"
            )));
        }
        let mut rules = vec![];
        for (kind, places) in self.places() {
            for place in places {
                rules.push(probe(kind.clone(), place, name)?);
            }
        }
        Ok(rules)
    }
}
