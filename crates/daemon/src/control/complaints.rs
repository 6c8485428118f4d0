// SPDX-License-Identifier: MIT OR Apache-2.0
//! What strangers do wrong, as often as a log can bear: a program can do wrong all day.

use std::cmp::Ordering;
use std::time::{Duration, Instant};

/// A part of the log that strangers can write to.
#[derive(Debug, Default)]
pub struct Complaints {
    since: Option<Instant>,
    count: u32,
}

impl Complaints {
    const PERIOD: Duration = Duration::from_secs(60);
    const COUNT_MAX: u32 = 20;

    /// Says a sentence, unless too many were said in this minute.
    pub fn add(&mut self, what: &str) {
        let now = Instant::now();
        if self.since.is_none_or(|since| now >= since + Complaints::PERIOD) {
            *self = Complaints {
                since: Some(now),
                count: 0,
            };
        }
        self.count += 1;
        match self.count.cmp(&Complaints::COUNT_MAX) {
            Ordering::Less => eprintln!("pisted: {what}"),
            Ordering::Equal => eprintln!("pisted: {what}; further messages of this kind are suppressed for a minute"),
            Ordering::Greater => {}
        }
    }
}
