// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages of the kernel's ring, made by hand: every kind of record, and bytes that no kernel writes.

use fastrand::Rng;
use piste_kernel::page::{Damage, Lost, Page, PageLayout};

const LAYOUT: PageLayout = PageLayout::USUAL;
const HEADER_BYTES: usize = 16;
/// The kernel adds a negative number.
const LOST: u64 = (i32::MIN as i64).cast_unsigned();
const LOST_STORED: u64 = 1 << 30;

/// A page of 4096 bytes, or of more where they need it, whose words of data are these, with these flags in the commit word.
fn page(words: &[u32], flags: u64) -> Vec<u8> {
    let mut bytes = Vec::from(1000u64.to_ne_bytes());
    bytes.extend((4 * words.len() as u64).wrapping_add(flags).to_ne_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    bytes.resize(bytes.len().max(4096), 0);
    bytes
}

/// The head of a record.
fn head(type_len: u32, delta: u32) -> u32 {
    assert!(type_len < 32 && delta < 1 << 27);
    if cfg!(target_endian = "big") {
        type_len << 27 | delta
    } else {
        delta << 5 | type_len
    }
}

/// Times and lengths of the records, and how the walk ended.
fn walk(bytes: &[u8]) -> (Vec<(u64, usize)>, Option<Damage>) {
    let page = Page::parse(&LAYOUT, bytes).expect("the header is good");
    let mut records = page.records();
    let seen = records
        .by_ref()
        .map(|record| (record.ticks, record.data.len()))
        .collect();
    assert!(records.next().is_none(), "an iterator that ended has ended");
    (seen, records.damage())
}

#[test]
fn times_add_up_over_all_kinds_of_records() {
    let words = [
        &[head(1, 5), 0][..],
        // A long record: the length counts its own word.
        &[head(0, 10), 12, 0, 0],
        // A time extend, then the record that it is for.
        &[head(30, 3), 2, head(2, 0), 0, 0],
        // A record that the kernel took back, and one more that had no delta of its own.
        &[head(29, 20), 8, 0],
        &[head(29, 1), 4],
        &[head(1, 1), 0],
        // An absolute time.
        &[head(31, 9), 100, head(1, 1), 0],
        // The end of the page.
        &[head(29, 0), 0xdead_beef],
    ];
    let (seen, damage) = walk(&page(&words.concat(), 0));
    let extended = 1015 + (2 << 27) + 3;
    let absolute = (100 << 27) + 9;
    assert_eq!(
        seen,
        [
            (1005, 4),
            (1015, 8),
            (extended, 8),
            (extended + 21, 4),
            (absolute + 1, 4)
        ]
    );
    assert_eq!(damage, None);
}

#[test]
fn an_empty_page_has_no_records() {
    assert_eq!(walk(&page(&[], 0)), (vec![], None));
    assert_eq!(walk(&page(&[], 0)[..HEADER_BYTES]), (vec![], None));
    // Padding that is the last word has no length.
    assert_eq!(walk(&page(&[head(29, 0)], 0)), (vec![], None));
}

#[test]
fn a_page_tells_what_was_lost_before_it() {
    let words = [head(1, 5), 0];
    let lost = |words: &[u32], flags| Page::parse(&LAYOUT, &page(words, flags)).unwrap().lost();
    assert_eq!(lost(&words, 0), Lost::None);
    assert_eq!(lost(&words, LOST), Lost::Unknown);
    let mut stored = page(&words, LOST.wrapping_add(LOST_STORED));
    stored[HEADER_BYTES + 8..HEADER_BYTES + 16].copy_from_slice(&77u64.to_ne_bytes());
    assert_eq!(Page::parse(&LAYOUT, &stored).unwrap().lost(), Lost::Count(77));
    assert_eq!(walk(&stored), (vec![(1005, 4)], None), "the count is no record");
    // No room for a count, whatever the flag says.
    let full = [head(1, 1), 0].repeat(510);
    assert_eq!(lost(&full, LOST.wrapping_add(LOST_STORED)), Lost::Unknown);
}

#[test]
fn a_page_in_a_large_sub_buffer_is_a_page() {
    let words = [head(2, 1), 0, 0].repeat(5000);
    let mut bytes = page(&words, 0);
    bytes.resize(65536, 0);
    let (seen, damage) = walk(&bytes);
    assert_eq!(
        (seen.len(), seen.last().copied(), damage),
        (5000, Some((6000, 8)), None)
    );
}

#[test]
fn a_page_of_nothing_but_times_is_walked() {
    let words = [head(30, 1), 0].repeat((524_288 - HEADER_BYTES) / 8);
    assert_eq!(walk(&page(&words, 0)), (vec![], None));
}

#[test]
fn what_is_no_page_is_damage() {
    let check = |bytes: &[u8], expected: &str| {
        assert_eq!(Page::parse(&LAYOUT, bytes).unwrap_err().to_string(), expected);
    };
    check(&[], "the page has 0 bytes, but its header needs 16");
    check(&[0; 15], "the page has 15 bytes, but its header needs 16");
    check(
        &page(&[0; 1021], 0)[..4096],
        "the page claims 4084 bytes of records, but has room for 4080",
    );
    check(
        &page(&[], 1 << 29),
        "the page claims 536870912 bytes of records, but has room for 4080",
    );
}

#[test]
fn what_is_no_record_ends_the_walk() {
    let good = [head(1, 5), 0];
    for (bad, expected) in [
        (
            vec![head(3, 1), 0, 0],
            "offset 8: a record has 16 bytes, but only 12 are left",
        ),
        (vec![head(0, 1)], "offset 8: a record has 8 bytes, but only 4 are left"),
        (
            vec![head(0, 1), 3],
            "offset 8: a record claims 3 bytes, fewer than the minimum of four",
        ),
        (
            vec![head(0, 1), 9, 0],
            "offset 8: a record has 16 bytes, but only 12 are left",
        ),
        (
            vec![head(0, 1), u32::MAX, 0],
            "offset 8: a record has 4294967300 bytes, but only 12 are left",
        ),
        (
            vec![head(29, 1), 100],
            "offset 8: a record has 104 bytes, but only 8 are left",
        ),
        (vec![head(30, 1)], "offset 8: a record has 8 bytes, but only 4 are left"),
        (vec![head(31, 1)], "offset 8: a record has 8 bytes, but only 4 are left"),
    ] {
        let (seen, damage) = walk(&page(&[&good, bad.as_slice()].concat(), 0));
        assert_eq!(seen, [(1005, 4)], "what came before is kept: {expected}");
        assert_eq!(damage.expect(expected).to_string(), expected);
    }
}

/// What hostile bytes can make of a page is records within it, an end, or damage.
#[test]
fn no_bytes_lead_out_of_the_page() {
    let mut random = Rng::with_seed(1);
    let words = [
        &[head(1, 5), 0][..],
        &[head(0, 10), 12, 0, 0],
        &[head(30, 3), 2],
        &[head(29, 20), 8, 0],
        &[head(31, 9), 100],
    ];
    let seed = page(&words.concat().repeat(60), LOST.wrapping_add(LOST_STORED));
    let mut records = 0;
    for round in 0..20_000 {
        let mut bytes = seed.clone();
        for _ in 0..=random.usize(..8) {
            // Heads more often than the rest, and all of the page at times.
            let reach = [HEADER_BYTES, 64, bytes.len()][random.usize(..3)];
            let place = random.usize(..reach);
            bytes[place] = if random.usize(..2) == 0 {
                random.u8(..)
            } else {
                bytes[place] ^ 1 << random.usize(..8)
            };
        }
        bytes.truncate(bytes.len() - if round % 4 == 0 { random.usize(..bytes.len()) } else { 0 });
        let Ok(page) = Page::parse(&LAYOUT, &bytes) else {
            continue;
        };
        let mut walk = page.records();
        for record in walk.by_ref() {
            records += 1;
            assert!(record.data.len() <= page.record_bytes());
            assert!(bytes.as_ptr_range().contains(&record.data.as_ptr()) || record.data.is_empty());
        }
        assert!(walk.next().is_none());
    }
    assert!(
        records > 100_000,
        "most pages must be walked for this to mean something: {records}"
    );
}
