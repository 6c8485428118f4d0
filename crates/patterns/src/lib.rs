// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names as people write them: which ones a pattern means ([`matches`](fn@matches)), and which ones were nearly written ([`nearest`](fn@nearest)).

mod nearest;
mod pattern;

pub use nearest::nearest;
pub use pattern::{matches, matches_bytes};
