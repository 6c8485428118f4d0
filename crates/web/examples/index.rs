// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the timeline of a trace, and says what that cost: `index TRACE FILE`.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use piste_modelling::Ground;
use piste_timeline::{LaneId, Recorder, Timeline};
use piste_trace::{Findings, Span, open};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, trace, output] = &arguments[..] else {
        return Err("usage: index TRACE FILE".into());
    };
    let mut findings = Findings::default();
    let traces = open(Path::new(trace), &mut findings)?;
    let ground = Ground::new(&traces, Span::ALL)?;
    let begin = Instant::now();
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(output)?;
    let recorder = Recorder::new(file.try_clone()?)?;
    let (system, recorder) = ground.run(recorder, &mut findings)?;
    recorder.finish(Some(&system), (0, 0), trace.as_bytes())?;
    println!("made in {:.2?}, {} bytes", begin.elapsed(), file.metadata()?.len());

    let timeline = Timeline::open(file)?;
    let lanes = 0..timeline.directory.subjects.len() as u32;
    let whole: Vec<_> = lanes
        .filter_map(|lane| Some((LaneId(lane), timeline.whole(LaneId(lane))?)))
        .collect();
    let pieces: u64 = whole.iter().map(|(_, all)| all.count).sum();
    println!("{} lanes, {pieces} pieces", whole.len());
    let spans = whole.iter().filter_map(|(_, all)| all.span_ns);
    let span_ns = spans.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    let begin = Instant::now();
    for (lane, _) in whole.iter().take(60) {
        timeline.columns(*lane, span_ns.unwrap_or_default(), 1200)?;
    }
    println!("60 lanes of 1200 columns in {:.2?}", begin.elapsed());
    Ok(())
}
