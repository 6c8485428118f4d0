// SPDX-License-Identifier: MIT OR Apache-2.0
//! The prompt: statements that end with `;`, a history that is kept, and completion of tables, columns and words of SQL.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use datafusion::catalog::CatalogProvider;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Editor, Helper};

use crate::batches::schema;
use crate::catalog::{quoted, tables};
use crate::failure::{Failure, tell};
use crate::layout::{Common, Layout};
use crate::request::Format;
use crate::session::Session;
use crate::spans;

const WORDS: &str = "SELECT FROM WHERE GROUP BY ORDER LIMIT AND OR NOT IN LIKE BETWEEN IS NULL AS DISTINCT HAVING JOIN LEFT ON \
    WITH UNION ALL CASE WHEN THEN ELSE END DESC ASC OVER PARTITION EXPLAIN DESCRIBE SHOW TABLES count( sum( avg( min( max( \
    approx_percentile_cont( date_trunc( date_bin( lag( lead( row_number( to_timestamp(";

const HELP: &str = "\
End statements with ;   Ctrl-C ends a statement; Ctrl-D or exit ends the prompt.
  SHOW TABLES;                                          list all tables: events, what the kernel did, streams, findings
  DESCRIBE events;                                      list the columns of a table
  SELECT name, count(*) FROM events GROUP BY name;";

/// Asks until there is no more.
pub(crate) fn prompt(session: &Session, format: Format) -> Result<(), Failure> {
    let failed = |error: ReadlineError| Failure::Failed(format!("cannot read from the terminal: {error}"));
    let mut editor: Editor<Words, FileHistory> = Editor::new().map_err(failed)?;
    editor.set_helper(Some(Words::new(&session.layout, &*session.catalog)));
    let history = history_file();
    if let Some(file) = &history {
        // There is none before the first time.
        let _ = editor.load_history(file);
    }
    session.interrupt().in_prompt();
    println!(
        "The traces have {} kinds of events. Type `help` for help.",
        session.layout.names.len()
    );
    loop {
        let text = match editor.readline("piste> ") {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(failed(error)),
        };
        let _ = editor.add_history_entry(text.trim());
        match text.trim().trim_end_matches(';').trim() {
            "" => continue,
            "exit" | "quit" | "\\q" => break,
            "help" | "?" => {
                println!("{HELP}");
                continue;
            }
            _ => {}
        }
        session.interrupt().forget();
        match session.run_all(&text, format, None) {
            Ok(()) => {}
            // Whoever leaves a pager goes on with the next statement.
            Err(Failure::ReaderGone) if io::stdout().is_terminal() => {}
            Err(Failure::ReaderGone) => return Err(Failure::ReaderGone),
            Err(Failure::Interrupted) => tell("the statement was interrupted"),
            Err(failure) => tell(failure.sentence().unwrap_or_default()),
        }
    }
    if let Some(file) = &history {
        let folder = file.parent().map(fs::create_dir_all);
        if let Some(Err(error)) = folder {
            tell(&format!("cannot save the history in {}: {error}", file.display()));
        } else if let Err(error) = editor.save_history(file) {
            tell(&format!("cannot save the history in {}: {error}", file.display()));
        }
    }
    Ok(())
}

/// `~/.local/state/piste/query-history`
fn history_file() -> Option<PathBuf> {
    let of = |variable: &str| {
        std::env::var_os(variable)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let state = of("XDG_STATE_HOME").or_else(|| Some(of("HOME")?.join(".local/state")))?;
    Some(state.join("piste/query-history"))
}

/// Whatever can stand in a statement.
struct Words(BTreeSet<String>);

impl Words {
    fn new(layout: &Layout, catalog: &dyn CatalogProvider) -> Words {
        let mut words: BTreeSet<String> = WORDS
            .split(' ')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        words.extend(tables().map(str::to_owned));
        let of_model = piste_analysis::tables::ALL.into_iter().map(|table| (table.columns)());
        for headings in of_model.chain([spans::headings()]) {
            words.extend(schema(&headings).fields().iter().map(|field| quoted(field.name())));
        }
        words.extend(Common::ALL.iter().map(|(_, name)| (*name).to_owned()));
        words.extend(layout.columns.iter().map(|(name, _)| quoted(name)));
        words.extend(layout.names.iter().map(|name| quoted(name)));
        for schema in catalog.schema_names() {
            let tables = catalog
                .schema(&schema)
                .map(|schema| schema.table_names())
                .unwrap_or_default();
            if schema != crate::catalog::SCHEMA {
                words.extend(
                    tables
                        .iter()
                        .map(|table| format!("{}.{}", quoted(&schema), quoted(table))),
                );
            }
        }
        Words(words)
    }
}

impl Helper for Words {}

impl Highlighter for Words {}

impl Hinter for Words {
    type Hint = String;
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = &line[..position];
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '"');
        let start = before.rfind(|c| !is_word(c)).map_or(0, |index| index + 1);
        // A separator may take more than one byte.
        let start = (start..=position)
            .find(|index| line.is_char_boundary(*index))
            .unwrap_or(position);
        let begun = before[start..].trim_start_matches('"').to_lowercase();
        if begun.is_empty() {
            return Ok((start, Vec::new()));
        }
        let fits = |word: &&String| word.trim_start_matches('"').to_lowercase().starts_with(&begun);
        let pair = |word: &String| Pair {
            display: word.clone(),
            replacement: word.clone(),
        };
        Ok((start, self.0.iter().filter(fits).map(pair).collect()))
    }
}

impl Validator for Words {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input().trim();
        let is_command = matches!(text, "" | "exit" | "quit" | "\\q" | "help" | "?");
        Ok(match is_command || text.ends_with(';') {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}
