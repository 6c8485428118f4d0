// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of what the model finds out in the kernel's traces: slices, states, system calls, interrupts, requests, processes, threads.

use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use piste_analysis::pass::Listeners;
use piste_analysis::tables::{Heading, Rows, Table};
use piste_modelling::{Ground, GroundError, expect_one_kernel, missing};
use piste_trace::progress::bytes_of;
use piste_trace::{Findings, Span};

use crate::batches::Batches;
use crate::layout::Layout;
use crate::one_pass::RowSource;
use crate::scan::Found;

/// A table of the model.
pub(crate) struct Model {
    pub(crate) table: &'static Table,
    pub(crate) layout: Arc<Layout>,
    pub(crate) found: Found,
}

impl RowSource for Model {
    fn name(&self) -> &'static str {
        self.table.name
    }

    fn headings(&self) -> Vec<Heading> {
        (self.table.columns)()
    }

    fn plan(&self) -> Result<u64> {
        let kernel = self.layout.kernel();
        expect_one_kernel(kernel).map_err(failed)?;
        self.found
            .note(missing(self.table.name, self.table.needs, kernel).map_err(failed)?);
        Ok(bytes_of(kernel, Span::ALL))
    }

    fn run(&self, headings: &[usize], batches: &Batches) -> Result<()> {
        let mut findings = Findings::default();
        let ground = Ground::new(self.layout.kernel(), Span::ALL).map_err(failed)?;
        let rows: Box<dyn Rows> = self.table.begin(headings, Box::new(batches.clone()));
        let ran = ground.run_while(Listeners(vec![rows]), &mut findings, || batches.are_wanted());
        let ran = ran.map_err(failed)?;
        let system = ran.as_ref().map(|(system, _)| system);
        self.found.note(ground.notes(system, self.table.needs));
        if let Some((system, mut rows)) = ran {
            rows.0.iter_mut().for_each(|rows| rows.finish(&system));
        }
        self.found.add(&findings);
        Ok(())
    }
}

fn failed(error: GroundError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
