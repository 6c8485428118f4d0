// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evaluates the filters of a simulation as runtime/filter.c does: comparisons of a field with a number.

use piste_abi::{
    FromBytes, PISTE_COMPARE_EQUAL, PISTE_COMPARE_GREATER, PISTE_COMPARE_LESS, PISTE_FILTER_ACCEPT,
    PISTE_FILTER_COMPARE_FIELD, PISTE_FILTER_REJECT, piste_filter, piste_instruction,
};

/// Whether a filter lets an event with these fields pass, each a uint64.
pub(super) fn passes(filter: &[u8], fields: &[u8]) -> bool {
    let mut next = 0;
    loop {
        let offset = size_of::<piste_filter>() + next * size_of::<piste_instruction>();
        let (test, _) = piste_instruction::read_from_prefix(&filter[offset..]).expect("instructions are whole");
        assert_eq!(
            u32::from(test.opcode),
            PISTE_FILTER_COMPARE_FIELD,
            "only numbers are compared"
        );
        let field = fields[test.offset as usize..test.end as usize].try_into();
        let order = u64::from_ne_bytes(field.expect("a uint64")).cmp(&test.operand);
        let relation = match order {
            std::cmp::Ordering::Less => PISTE_COMPARE_LESS,
            std::cmp::Ordering::Equal => PISTE_COMPARE_EQUAL,
            std::cmp::Ordering::Greater => PISTE_COMPARE_GREATER,
        };
        let is_true = u32::from(test.comparison) & relation != 0;
        match u32::from(if is_true { test.if_true } else { test.if_false }) {
            PISTE_FILTER_ACCEPT => return true,
            PISTE_FILTER_REJECT => return false,
            target => next = target as usize,
        }
    }
}
