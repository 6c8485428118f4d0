// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all pages have in common that piste writes to a file: one document with its style, which may run and load nothing, and says who made it.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::version::own_version;

/// What a page is framed by.
pub(crate) struct Frame<'f> {
    pub(crate) title: &'f str,
    /// Its Content-Security-Policy, which allows the style and nothing else.
    pub(crate) policy: &'f str,
    pub(crate) style: &'f str,
}

impl Frame<'_> {
    /// The whole page.
    pub(crate) fn page(&self, body: &Markup, zone: &TimeZone) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(self.policy);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="referrer" content="no-referrer";
                    title { (self.title) }
                    style { (PreEscaped(self.style)) }
                }
                body {
                    (body)
                    footer {
                        "Made by piste " (own_version()) " on " (moment(Timestamp::now().as_nanosecond() as i64, zone)) "."
                    }
                }
            }
        }
    }
}

/// `2026-11-28 06:07:12 UTC`
pub(crate) fn moment(ns: i64, zone: &TimeZone) -> String {
    match Timestamp::from_nanosecond(ns.into()) {
        Ok(timestamp) => timestamp
            .to_zoned(zone.clone())
            .strftime("%Y-%m-%d %H:%M:%S %Z")
            .to_string(),
        Err(_) => format!("{ns} ns"),
    }
}
