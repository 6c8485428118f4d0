// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the text that the kernel makes of a ring.

/// What the kernel says of an event.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) tid: i32,
    pub(crate) cpu: u32,
    pub(crate) ticks: u64,
    pub(crate) event: &'a str,
    /// ` name=value` for each field; texts may have any bytes, also the end of a line.
    pub(crate) fields: &'a [u8],
}

/// The events of a text.
pub(crate) fn lines(text: &[u8]) -> Vec<Line<'_>> {
    let mut lines = Vec::<Line>::new();
    let mut at = 0;
    while at < text.len() {
        let end = text[at..].iter().position(|byte| *byte == b'\n');
        let end = end.map_or(text.len(), |end| at + end);
        let line = &text[at..end];
        match read(line) {
            Some(line) => lines.push(line),
            None if line.starts_with(b"#") || line.is_empty() && lines.is_empty() => {}
            None => {
                // It is the rest of the line before.
                if let Some(last) = lines.last_mut() {
                    let start = last.fields.as_ptr().addr() - text.as_ptr().addr();
                    last.fields = &text[start..end];
                }
            }
        }
        at = end + 1;
    }
    lines
}

/// `   bash-26947   [001] ..... 5506551857052: sched_process_fork: parent_comm=bash ...`
fn read(line: &[u8]) -> Option<Line<'_>> {
    let bracket = line.windows(2).position(|two| two == b" [")?;
    let bracket = (bracket..line.len()).find(|at| {
        let rest = &line[*at..];
        rest.len() > 7 && rest.starts_with(b" [") && rest[2..5].iter().all(u8::is_ascii_digit) && &rest[5..7] == b"] "
    })?;
    let (task, rest) = line.split_at(bracket);
    let task = str::from_utf8(task.trim_ascii_end().rsplit(|byte| *byte == b'-').next()?).ok()?;
    let cpu = str::from_utf8(&rest[2..5]).ok()?;
    let colon = rest.windows(2).position(|two| two == b": ")?;
    let ticks = str::from_utf8(rest[..colon].rsplit(|byte| *byte == b' ').next()?).ok()?;
    let rest = &rest[colon + 2..];
    let colon = rest.iter().position(|byte| *byte == b':')?;
    Some(Line {
        tid: task.parse().ok()?,
        cpu: cpu.parse().ok()?,
        ticks: ticks.parse().ok()?,
        event: str::from_utf8(&rest[..colon]).ok()?,
        fields: &rest[colon + 1..],
    })
}
