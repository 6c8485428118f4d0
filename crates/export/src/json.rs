// SPDX-License-Identifier: MIT OR Apache-2.0
//! One JSON document: what the traces are, and their events as the objects that `piste view --format ndjson` prints.

use std::io::{self, Write};

use piste_ctf::read::schema::EnvironmentValue;
use piste_modelling::Symbols;
use piste_trace::Trace;
use piste_trace::objects::Objects;
use piste_trace::select::Selection;
use serde_json::{Map, Value, json};

use crate::{ExportError, Exported};

const OUT_BYTES: usize = 64 << 10;

/// Writes the wanted events of traces as one JSON document.
///
/// # Errors
/// A stream file that was there cannot be opened any more, or the output cannot be written.
pub fn json<'t>(
    traces: &'t [Trace],
    selection: &Selection,
    symbols: Option<&Symbols<'t>>,
    out: &mut dyn Write,
) -> Result<Exported, ExportError> {
    let mut objects = Objects::new(traces, selection).map_err(ExportError::Read)?;
    if let Some(symbols) = symbols {
        objects.set_symbols(symbols.of_events());
    }
    let events = write(traces, &mut objects, out).map_err(ExportError::Write)?;
    Ok(Exported {
        events,
        findings: std::mem::take(&mut objects.merge.findings),
    })
}

fn write(traces: &[Trace], objects: &mut Objects<'_>, out: &mut dyn Write) -> io::Result<u64> {
    let described: Vec<Value> = traces.iter().map(describe).collect();
    write!(out, "{{\"traces\":{},\"events\":[", Value::Array(described))?;
    let (mut lines, mut events) = (Vec::new(), 0);
    loop {
        // An object and the end of its line; what stands between objects comes before it.
        lines.extend_from_slice(if events == 0 { b"\n" } else { b",\n" });
        let begin = lines.len();
        if !objects.next(&mut lines) {
            lines.truncate(begin - if events == 0 { 1 } else { 2 });
            break;
        }
        lines.pop();
        events += 1;
        if lines.len() >= OUT_BYTES {
            out.write_all(&lines)?;
            lines.clear();
        }
    }
    out.write_all(&lines)?;
    out.write_all(b"\n]}\n")?;
    Ok(events)
}

/// `{"name":"vm/user","uuid":"...","environment":{...}}`
fn describe(trace: &Trace) -> Value {
    let schema = trace.schema();
    let environment = schema.environment.iter().map(|(key, value)| {
        let value = match value {
            EnvironmentValue::Integer(value) => json!(value),
            EnvironmentValue::Text(value) => json!(value),
        };
        (key.clone(), value)
    });
    let uuid = schema.uuid.map(|uuid| {
        let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let groups = [&uuid[..4], &uuid[4..6], &uuid[6..8], &uuid[8..10], &uuid[10..]];
        groups.map(digits).join("-")
    });
    let environment: Map<String, Value> = environment.collect();
    json!({ "name": trace.name, "uuid": uuid, "environment": environment })
}
