// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the traces of one machine to a timeline: what programs recorded is read first, then the kernel's traces, through the model. A
//! [`Recorder`] listens, alone or together with others, so that one pass answers everything.

use std::io::Write;

use piste_analysis::model::{Listen, System};
use piste_analysis::spans::{Span as OfProgram, Track};
use piste_modelling::{Ground, GroundError, Programs, StreamGap, expect_one_kernel, read_programs};
use piste_trace::blind::recorded_span;
use piste_trace::select::Comm;
use piste_trace::{Findings, Span, Trace};

use crate::recorder::Recorder;

/// Traces of one machine.
pub struct Sources<'t> {
    programs: &'t [Trace],
    /// Absent: the kernel was not recorded.
    ground: Option<Ground<'t>>,
    span: Span,
}

impl<'t> Sources<'t> {
    /// Looks at the first events of the kernel's traces, of which only the part `told` is of interest.
    ///
    /// # Errors
    /// The kernel's traces are of several machines, or nothing can be said of them.
    pub fn new(kernel: &'t [Trace], programs: &'t [Trace], told: Span) -> Result<Sources<'t>, GroundError> {
        let ground = match kernel {
            [] => None,
            kernel => {
                expect_one_kernel(kernel)?;
                Some(Ground::new(kernel, told)?)
            }
        };
        let recorded = recorded_span(kernel.iter().chain(programs)).unwrap_or(Span::ALL);
        // The first packets of some tracers begin before anything was recorded: the kernel's begin is that of its first event.
        let begins_ns = [
            ground.as_ref().map(Ground::begin_ns),
            recorded_span(programs).map(|span| span.begin_ns),
        ];
        let begin_ns = begins_ns.into_iter().flatten().min();
        let span = Span {
            begin_ns: begin_ns.unwrap_or(recorded.begin_ns),
            ..recorded
        };
        Ok(Sources { programs, ground, span })
    }

    /// From when to when the traces are, as far as it is known before they are read.
    pub fn span(&self) -> Span {
        self.span
    }

    /// What the model stands on. Absent: the kernel was not recorded.
    pub fn ground(&self) -> Option<&Ground<'t>> {
        self.ground.as_ref()
    }

    /// Reads everything: the system at the end, if the kernel was recorded, and who has listened. `None` if `goes_on`, which is asked now and
    /// then, ended it early.
    ///
    /// # Errors
    /// A stream file that was there cannot be opened any more.
    pub fn read<L: Listen + Programs>(
        &self,
        mut listener: L,
        findings: &mut Findings,
        goes_on: impl Fn() -> bool,
    ) -> Result<Option<(Option<System>, L)>, GroundError> {
        let Some(found) = read_programs(self.programs, &mut listener, &goes_on)? else {
            return Ok(None);
        };
        findings.extend(found);
        let Some(ground) = &self.ground else {
            return Ok(Some((None, listener)));
        };
        let pass = ground.run_while(listener, findings, goes_on)?;
        Ok(pass.map(|(system, listener)| (Some(system), listener)))
    }

    /// From when to when the traces are, now that they are read.
    pub fn span_ns(&self, system: Option<&System>) -> (i64, i64) {
        let told = system.map(System::told);
        match told.filter(|_| self.programs.is_empty()) {
            Some(told) => told,
            None => (
                self.span.begin_ns,
                told.map_or(self.span.end_ns, |told| told.1.max(self.span.end_ns)),
            ),
        }
    }
}

impl<W: Write> Programs for Recorder<W> {
    fn span(&mut self, span: &OfProgram<'_, Option<Comm>>) {
        self.program_span(span, bytes_of(span.whose.as_ref()));
    }

    fn instant(&mut self, track: Track, comm: Option<Comm>, name: &str, ns: i64) {
        self.program_event(track, bytes_of(comm.as_ref()), name, ns);
    }

    fn lost(&mut self, gap: &StreamGap<'_>) {
        self.program_lost(gap.pid, gap.begin_ns, gap.end_ns);
    }

    fn over(&mut self, end_ns: i64) {
        self.programs_over(end_ns);
    }
}

fn bytes_of(comm: Option<&Comm>) -> &[u8] {
    comm.map_or(&[], Comm::as_bytes)
}
