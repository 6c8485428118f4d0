// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the command says where no pisted is needed: help, and what it refuses before it asks one. The texts are in
//! `tests/commands/`; `TRYCMD=overwrite cargo test -p piste --test commands` writes them anew.

#[test]
fn help_and_refusals_read_as_written_down() {
    trycmd::TestCases::new()
        .env("PISTE_RUNDIR", "run")
        .case("tests/commands/*.trycmd");
}
