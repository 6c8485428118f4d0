// SPDX-License-Identifier: MIT OR Apache-2.0
//! SQL statements, from text to rows.
//!
//! DataFusion's planner is generic and asynchronous, so it is compiled in the crate that calls it, and optimized like that crate. It runs only once
//! for each statement, so the profile optimizes this crate little: that saves a minute of compiling, and `piste-query` can still be optimized fully.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use datafusion::catalog::CatalogProvider;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};
use datafusion::sql::parser::{DFParser, Statement as Parsed};
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;

/// What `SHOW TABLES` stands for, by the schema whose tables come first.
fn show_tables(schema: &str) -> String {
    format!(
        "SELECT table_schema AS \"schema\", table_name AS \"table\" FROM information_schema.tables \
         WHERE table_schema <> 'information_schema' ORDER BY table_schema <> '{schema}', table_schema, table_name"
    )
}

/// A statement that was understood.
pub struct Statement(Parsed);

/// The statements of a text.
///
/// # Errors
/// The text is no SQL.
pub fn statements(text: &str) -> Result<VecDeque<Statement>> {
    Ok(DFParser::parse_sql(text)?.into_iter().map(Statement).collect())
}

/// How statements are run.
pub struct Options<'a> {
    /// The catalog's name, in SQL.
    pub catalog: &'a str,
    /// The schema whose tables need no prefix.
    pub schema: &'a str,
    /// Into how many parts work is divided.
    pub threads: usize,
    /// The most memory for rows that have to be kept, in bytes.
    pub memory_bytes: usize,
}

/// Plans statements over the tables of a catalog, which it only reads.
pub struct Planner {
    context: SessionContext,
    show_tables: String,
}

impl Planner {
    /// Over `tables`.
    ///
    /// # Errors
    /// DataFusion's runtime cannot be made.
    pub fn new(options: &Options<'_>, tables: Arc<dyn CatalogProvider>) -> Result<Planner> {
        let config = SessionConfig::new()
            .with_target_partitions(options.threads)
            .with_information_schema(true)
            .with_default_catalog_and_schema(options.catalog, options.schema)
            .with_create_default_catalog_and_schema(false)
            // Names of fields are as the tracer gave them, also in capitals.
            .set_bool("datafusion.sql_parser.enable_ident_normalization", false)
            .set_bool("datafusion.execution.collect_statistics", false);
        let environment = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(options.memory_bytes)))
            .build_arc()?;
        let context = SessionContext::new_with_config_rt(config, environment);
        context.register_catalog(options.catalog, tables);
        Ok(Planner {
            context,
            show_tables: show_tables(options.schema),
        })
    }

    /// Begins a statement. Its rows come from the stream as they are found.
    ///
    /// # Errors
    /// The statement would change something, or DataFusion finds it wrong.
    pub fn run(
        &self,
        statement: Statement,
    ) -> Pin<Box<dyn Future<Output = Result<SendableRecordBatchStream>> + Send + '_>> {
        Box::pin(async {
            self.context
                .execute_logical_plan(self.plan(statement).await?)
                .await?
                .execute_stream()
                .await
        })
    }

    async fn plan(&self, Statement(statement): Statement) -> Result<LogicalPlan> {
        let state = self.context.state();
        let statement = match statement {
            Parsed::Statement(inner) if matches!(*inner, SqlStatement::ShowTables { .. }) => {
                state.sql_to_statement(&self.show_tables, &state.config_options().sql_parser.dialect)?
            }
            other => other,
        };
        let plan = state.statement_to_plan(statement).await?;
        // A trace is read, not changed, and neither are files.
        SQLOptions::new().with_allow_dml(false).verify_plan(&plan)?;
        match plan {
            LogicalPlan::Ddl(DdlStatement::DropTable(_) | DdlStatement::DropCatalogSchema(_)) => Err(
                DataFusionError::NotImplemented("dropping a table of a trace; traces are read-only".into()),
            ),
            other => Ok(other),
        }
    }
}
