// SPDX-License-Identifier: MIT OR Apache-2.0
//! Columns for formats that know nothing but numbers and texts.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// The rows with structures, lists and bytes as texts.
pub(super) fn texts(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        match field.data_type() {
            of_type if of_type.is_nested() || matches!(of_type, DataType::Binary) => {
                fields.push(Arc::new(Field::new(field.name(), DataType::Utf8, true)));
                columns.push(text(column)?);
            }
            _ => {
                fields.push(field.clone());
                columns.push(column.clone());
            }
        }
    }
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
}

fn text(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(column, &options)?;
    let texts = (0..column.len()).map(|row| column.is_valid(row).then(|| formatter.value(row).to_string()));
    Ok(Arc::new(texts.collect::<StringArray>()))
}
