// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests to devices.

use super::device_tests::{check, check_in};
use super::*;

#[test]
fn requests_are_followed_from_the_queue_to_the_end() {
    check(
        "device
         on 5
         insert R 100 8
         on 6
         issue R 100 8
         issue W 200 16
         complete R 100 8
         complete W 200 4
         complete W 204 12
         complete W 300 8",
        &[
            "sda read 100+4096 by 5 queue Some(20) device Some(20)",
            "sda write 200+8192 by 6 queue None device Some(30)",
        ],
    );
}

#[test]
fn a_request_is_for_the_file_of_the_call_that_asks_for_it() {
    check(
        "on 5
         open 3 /a
         open 4 /b
         enter fsync 3
         insert W 100 8
         issue W 200 8
         on 6
         issue W 100 8
         on 5
         leave fsync 0
         enter pread64 4
         issue R 300 8
         issue W 400 8
         complete R 300 8
         leave pread64 10
         issue R 500 8
         complete W 100 8",
        &[
            "5 open 3=/a[file] 0/0",
            "5 open 4=/b[file] 0/0",
            "5 sync 3=/a[file] 0/0",
            "8:0 read 300+4096 by 5 for /b queue None device Some(20)",
            "5 read 4=/b[file] 10/0",
            "8:0 write 100+4096 by 5 for /a queue Some(30) device Some(90)",
            "8:0 write 200+4096 by 5 for /a queue None device None",
            "8:0 write 400+4096 by 5 queue None device None",
            "8:0 read 500+4096 by 5 queue None device None",
        ],
    );
}

#[test]
fn flushes_have_no_place_and_what_does_not_end_is_told_as_far_as_it_got() {
    check(
        "on 5
         issue F 0 0
         complete F -1 0
         complete W 0 0
         issue R 100 8
         issue R 50 8
         requeue R 50 8
         issue R 50 8
         issue R 100 16
         insert W 400 8
         merge W 400 8
         issue W 400 8
         complete W 400 8",
        &[
            "8:0 flush 0+0 by 5 queue None device Some(10)",
            "8:0 read 100+4096 by 5 queue None device None",
            "8:0 read 100+8192 by 5 queue None device None",
            "8:0 write 400+4096 by 5 queue None device Some(10)",
            "8:0 read 50+4096 by 5 queue Some(20) device None",
        ],
    );
}

#[test]
fn which_of_several_at_one_place_has_ended_is_unknown_until_all_have() {
    check(
        "on 5
         issue R 100 8
         issue W 100 8
         issue R 100 8
         complete R 100 8
         issue R 100 16
         complete W 100 8
         complete R 100 16
         complete R 100 8
         issue R 100 8
         complete R 100 8",
        &[
            "8:0 read 100+4096 by 5 queue None device None",
            "8:0 read 100+4096 by 5 queue None device None",
            "8:0 read 100+8192 by 5 queue None device None",
            "8:0 write 100+4096 by 5 queue None device Some(40)",
            "8:0 read 100+4096 by 5 queue None device Some(10)",
        ],
    );
    // The end of a longer one, whose begin is not there.
    check(
        "on 5
         issue R 100 8
         complete R 100 16",
        &["8:0 read 100+4096 by 5 queue None device None"],
    );
}

#[test]
fn who_asked_is_known_of_several_in_the_queue_when_it_was_one_thread() {
    check(
        "on 5
         insert R 100 8
         on 6
         insert R 100 8
         insert R 200 8
         insert R 200 8
         on 7
         issue R 100 8
         complete R 100 8
         issue R 100 8
         complete R 100 8
         issue R 200 8
         complete R 200 8
         merge R 200 8
         insert R 200 8
         issue R 200 8
         complete R 200 8",
        &[
            "8:0 read 100+4096 by 0 queue None device Some(10)",
            "8:0 read 100+4096 by 0 queue None device Some(10)",
            "8:0 read 200+4096 by 6 queue None device Some(10)",
            "8:0 read 200+4096 by 7 queue Some(10) device Some(10)",
        ],
    );
}

#[test]
fn what_was_given_back_is_the_same_request_when_it_comes_into_the_queue_again() {
    check(
        "on 5
         issue R 100 8
         on 7
         requeue R 100 8
         insert R 100 8
         issue R 100 8
         complete R 100 8",
        &["8:0 read 100+4096 by 5 queue Some(40) device Some(10)"],
    );
}

#[test]
fn of_two_at_one_place_with_a_gap_between_them_neither_end_is_known() {
    let gap = Gap {
        cpu: Some(1),
        begin_ns: 25,
        end_ns: 28,
    };
    let circumstances = Circumstances {
        gaps: Gaps::new(&[gap]),
        ..Circumstances::whole(0)
    };
    check_in(
        circumstances,
        "on 5
         issue R 100 8
         issue R 100 8
         complete R 100 8
         issue R 100 8
         complete R 100 8",
        &[
            "8:0 read 100+4096 by 5 queue None device None",
            "8:0 read 100+4096 by 5 queue None device None",
            "8:0 read 100+4096 by 5 queue None device Some(10)",
        ],
    );
}
