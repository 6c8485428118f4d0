// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses of code and of data to the names that their authors gave them.
//!
//! - [`binary`]: functions and lines of a program or a library
//! - [`functions`]: functions of a program or a library by its symbols alone, and which one a call calls
//! - [`data`]: variables of a program or a library, and where all of it lies in memory
//! - [`image`]: functions and variables of a program or a library, and where all of it lies in memory
//! - [`kernel`]: functions and variables of the kernel that runs
//! - [`perf_map`]: code that programs made while they ran
//! - [`local`]: files that strangers chose, without waiting for anybody
//! - [`parameters`]: parameters of functions by name, for probes
//! - [`debug_file`]: where the names of a stripped program are
//! - [`debuginfod`]: programs and debug files from the network
//! - [`demangle`]: names of linkers as names of the source

pub mod binary;
pub mod data;
pub mod debug_file;
pub mod debuginfod;
pub mod demangle;
pub mod functions;
pub mod image;
pub mod kernel;
pub mod local;
pub mod parameters;
pub mod perf_map;
