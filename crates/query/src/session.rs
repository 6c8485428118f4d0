// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statements, one after the other, and their rows to the output.

use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use datafusion::catalog::CatalogProvider;
use futures::StreamExt;
use futures::future::{Either, select};
use piste_reason::reason;
use piste_sql::{Options, Planner, Statement};
use piste_terminal::progress::{Progress, fits_beside_stdout};
use piste_trace::Findings;
use tokio::runtime::{Builder, Runtime};

use crate::catalog::{CATALOG, Catalog, SCHEMA};
use crate::failure::{Failure, tell, tell_findings};
use crate::interrupt::Interrupt;
use crate::layout::Layout;
use crate::output::{Look, Output};
use crate::prompt;
use crate::request::{Format, Query};
use crate::scan::{Found, way};

/// A place to run statements in.
pub(crate) struct Session {
    planner: Planner,
    runtime: Runtime,
    interrupt: Interrupt,
    /// Is wanted.
    progress: bool,
    look: Look,
    pub(crate) layout: Arc<Layout>,
    pub(crate) catalog: Arc<Catalog>,
}

/// `piste query`
pub(crate) fn query(
    query: &Query,
    output: Option<&Path>,
    layout: &Arc<Layout>,
    opened: Findings,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let opened = Arc::new(opened);
    let found = Found::default();
    let session = Session::new(query, layout, &found, &opened, interrupt)?;
    let done = match &query.statements {
        Some(statements) => session.run_all(statements, query.format, output),
        None if io::stdin().is_terminal() => prompt::prompt(&session, query.format),
        None => {
            let mut statements = String::new();
            let read = io::stdin().read_to_string(&mut statements);
            read.map_err(|error| Failure::Failed(format!("cannot read statements from stdin: {}", reason(&error))))?;
            session.run_all(&statements, query.format, output)
        }
    };
    if !matches!(done, Err(Failure::Usage(_) | Failure::Interrupted)) {
        let notes = found.notes().into_iter().chain(layout.notes());
        notes.for_each(|note| tell(&note));
        let mut findings = Findings::clone(&opened);
        findings.extend(found.findings());
        tell_findings(&findings);
    }
    done
}

impl Session {
    fn new(
        query: &Query,
        layout: &Arc<Layout>,
        found: &Found,
        opened: &Arc<Findings>,
        interrupt: &Interrupt,
    ) -> Result<Session, Failure> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(query.threads)
            .build()
            .map_err(|error| Failure::Failed(format!("cannot start threads: {}", reason(&error))))?;
        let catalog = Arc::new(Catalog::new(layout, found, opened));
        let tables: Arc<dyn CatalogProvider> = catalog.clone();
        let options = Options {
            catalog: CATALOG,
            schema: SCHEMA,
            threads: query.threads,
            memory_bytes: query.memory_bytes,
        };
        Ok(Session {
            planner: Planner::new(&options, tables)?,
            runtime,
            interrupt: interrupt.clone(),
            progress: query.progress,
            look: Look {
                is_wide: query.wide,
                is_paged: query.pager,
            },
            layout: layout.clone(),
            catalog,
        })
    }

    /// What ends a statement.
    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Runs every statement of a text. A file has the rows of one.
    pub(crate) fn run_all(&self, text: &str, format: Format, output: Option<&Path>) -> Result<(), Failure> {
        let statements = piste_sql::statements(text)?;
        if statements.is_empty() {
            return Err(Failure::Usage(
                "there is no statement; write for example \"SELECT name, count(*) FROM events GROUP BY name\"".into(),
            ));
        }
        if output.is_some() && statements.len() > 1 {
            return Err(Failure::Usage(format!(
                "--output writes the rows of one statement, but there are {} statements",
                statements.len()
            )));
        }
        for statement in statements {
            let mut to = Output::new(format, output, self.look)?;
            self.run(statement, &mut to)?;
            to.finish()?;
        }
        Ok(())
    }

    fn run(&self, statement: Statement, output: &mut Output) -> Result<(), Failure> {
        self.runtime.block_on(async {
            let run = pin!(self.rows(statement, output));
            let raised = pin!(self.interrupt.raised());
            match select(run, raised).await {
                Either::Left((done, _)) => done,
                Either::Right(_) => Err(Failure::Interrupted),
            }
        })
    }

    async fn rows(&self, statement: Statement, output: &mut Output) -> Result<(), Failure> {
        let is_unseen = output.is_file() || fits_beside_stdout();
        let shows_progress = self.progress && (is_unseen || io::stdout().is_terminal());
        let mut progress = Some(Progress::on_the_way("reading", way(), shows_progress));
        let mut batches = self.planner.run(statement).await?;
        output.begin(&batches.schema())?;
        while let Some(batch) = batches.next().await {
            if !is_unseen {
                // From the first row on, rows show that it goes on.
                progress = None;
            }
            output.write(&batch?)?;
            if self.interrupt.is_raised() {
                return Err(Failure::Interrupted);
            }
        }
        drop(progress);
        Ok(())
    }
}
