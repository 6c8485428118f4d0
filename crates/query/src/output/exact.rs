// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole numbers in JSON that nobody rounds: those that jq and JavaScript cannot hold are texts.

use std::fmt::Display;
use std::io::Write;
use std::sync::Arc;

use arrow::array::{Array, AsArray, PrimitiveArray};
use arrow::datatypes::{ArrowPrimitiveType, DataType, FieldRef, Int64Type, UInt64Type};
use arrow::error::ArrowError;
use arrow::json::WriterBuilder;
use arrow::json::writer::{Encoder, EncoderFactory, EncoderOptions, NullableEncoder};
use piste_ctf::read::json_value::is_text;

/// What JSON is written with.
pub(super) fn builder() -> WriterBuilder {
    WriterBuilder::new().with_encoder_factory(Arc::new(Exact))
}

#[derive(Debug)]
struct Exact;

impl EncoderFactory for Exact {
    fn make_default_encoder<'a>(
        &self,
        _: &'a FieldRef,
        array: &'a dyn Array,
        _: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            DataType::Int64 => Box::new(Numbers {
                array: array.as_primitive::<Int64Type>(),
                magnitude: i64::unsigned_abs,
            }),
            DataType::UInt64 => Box::new(Numbers {
                array: array.as_primitive::<UInt64Type>(),
                magnitude: |number| number,
            }),
            _ => return Ok(None),
        };
        Ok(Some(NullableEncoder::new(encoder, array.nulls().cloned())))
    }
}

struct Numbers<'a, T: ArrowPrimitiveType> {
    array: &'a PrimitiveArray<T>,
    magnitude: fn(T::Native) -> u64,
}

impl<T: ArrowPrimitiveType<Native: Display>> Encoder for Numbers<'_, T> {
    fn encode(&mut self, index: usize, out: &mut Vec<u8>) {
        let number = self.array.value(index);
        // Writing to memory does not fail.
        let _ = match is_text((self.magnitude)(number)) {
            true => write!(out, "\"{number}\""),
            false => write!(out, "{number}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt64Array};
    use arrow::json::writer::LineDelimited;

    use super::*;

    #[test]
    fn numbers_that_would_be_rounded_are_texts() {
        let signed: ArrayRef = Arc::new(Int64Array::from(vec![Some(-1 << 53), Some((-1 << 53) - 1), None]));
        let unsigned: ArrayRef = Arc::new(UInt64Array::from(vec![1 << 53, (1 << 53) + 1, u64::MAX]));
        let batch = RecordBatch::try_from_iter([("i", signed), ("u", unsigned)]).expect("a batch");
        let mut writer = builder().build::<_, LineDelimited>(Vec::new());
        writer.write(&batch).expect("written");
        assert_eq!(
            String::from_utf8(writer.into_inner()).expect("UTF-8"),
            "{\"i\":-9007199254740992,\"u\":9007199254740992}\n\
             {\"i\":\"-9007199254740993\",\"u\":\"9007199254740993\"}\n\
             {\"u\":\"18446744073709551615\"}\n"
        );
    }
}
