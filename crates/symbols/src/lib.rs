// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses of code and of data to the names that their authors gave them.
//!
//! - [`binary`]: functions and lines of a program or a library
//! - [`functions`]: functions of a program or a library by its symbols alone, and which one a call calls
//! - [`data`]: variables of a program or a library, and where all of it lies in memory
//! - [`kernel`]: functions of the kernel that runs
//! - [`local`]: files that strangers chose, without waiting for anybody
//! - [`parameters`]: parameters of functions by name, for probes
//! - [`debug_file`]: where the names of a stripped program are
//! - [`demangle`]: names of linkers as names of the source

pub mod binary;
pub mod data;
pub mod debug_file;
pub mod demangle;
pub mod functions;
pub mod kernel;
pub mod local;
pub mod parameters;
