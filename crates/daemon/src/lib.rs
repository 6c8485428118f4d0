// SPDX-License-Identifier: MIT OR Apache-2.0
//! pisted: the control process and the consumer process, two roles of one executable.

pub mod consumer;
pub mod datagrams;
pub mod link;
