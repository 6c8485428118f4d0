// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results in the formats of other tools, as text:
//!
//! - [`cyclictest`]: the histogram that `cyclictest -h` prints
//! - [`hdr_log`]: the histograms that HdrHistogram's tools read
//! - [`hgrm`]: the percentiles that the plotters of HdrHistogram read

pub mod cyclictest;
pub mod hdr_log;
pub mod hgrm;
