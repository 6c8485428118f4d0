// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a query's conditions say before an event is decoded: which classes, which streams, which part of time. Conditions on what all
//! events of a class or of a stream have in common are decided here for good; others only rule out what can be ruled out, and are
//! checked again on the rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::Session;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown};
use piste_trace::Span;

use crate::layout::{Common, Layout};

/// What a condition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// The name of an event, and nothing else.
    Name,
    /// Trace and stream of an event, and nothing else.
    Stream,
    Other,
}

/// What has to be read.
pub(crate) struct Chosen {
    /// By the layout's classes.
    pub(crate) classes: Vec<bool>,
    /// By the rows of the table `streams`.
    pub(crate) streams: Vec<bool>,
    pub(crate) span: Span,
}

/// Whether a condition is decided here for good.
pub(crate) fn support(filter: &Expr) -> TableProviderFilterPushDown {
    match about(filter) {
        About::Name | About::Stream => TableProviderFilterPushDown::Exact,
        About::Other => TableProviderFilterPushDown::Inexact,
    }
}

fn about(filter: &Expr) -> About {
    let columns = filter.column_refs();
    let all = |names: &[&str]| !columns.is_empty() && columns.iter().all(|column| names.contains(&column.name()));
    if filter.is_volatile() {
        About::Other
    } else if all(&["name"]) {
        About::Name
    } else if all(&["trace", "stream"]) {
        About::Stream
    } else {
        About::Other
    }
}

/// What the conditions leave, which must all hold.
pub(crate) fn choose(state: &dyn Session, layout: &Layout, filters: &[Expr]) -> Result<Chosen> {
    let stream_traces: Vec<usize> = layout
        .traces
        .iter()
        .enumerate()
        .flat_map(|(number, trace)| vec![number; trace.streams.len()])
        .collect();
    let mut names = vec![true; layout.names.len()];
    let mut chosen = Chosen {
        classes: vec![true; layout.classes.len()],
        streams: vec![true; stream_traces.len()],
        span: Span::ALL,
    };
    for filter in filters {
        match about(filter) {
            About::Name => {
                let texts: ArrayRef = Arc::new(StringArray::from_iter_values(&layout.names));
                keep(&mut names, &evaluate(state, filter, &[("name", texts)])?);
            }
            About::Stream => {
                let traces = stream_traces.iter().map(|trace| layout.traces[*trace].name.as_str());
                let traces: ArrayRef = Arc::new(StringArray::from_iter_values(traces));
                let streams: ArrayRef = Arc::new(Int64Array::from_iter_values(0..stream_traces.len() as i64));
                keep(
                    &mut chosen.streams,
                    &evaluate(state, filter, &[("trace", traces), ("stream", streams)])?,
                );
            }
            About::Other => {
                narrow(&mut chosen.span, filter);
                if let Some(column) = needed(filter) {
                    for (class, wanted) in layout.classes.iter().zip(&mut chosen.classes) {
                        let mut fields = class.fields.iter().flatten();
                        *wanted &= fields.any(|field| field.has(column));
                    }
                }
            }
        }
    }
    for (class, wanted) in layout.classes.iter().zip(&mut chosen.classes) {
        *wanted &= names[class.name as usize];
    }
    Ok(chosen)
}

/// The condition for each row of some columns. A column that has another type in the tables is converted by the planner.
fn evaluate(state: &dyn Session, filter: &Expr, columns: &[(&str, ArrayRef)]) -> Result<Vec<bool>> {
    let views = columns.iter().map(|(name, values)| {
        let of_type = match values.data_type() {
            DataType::Utf8 => DataType::Utf8View,
            other => other.clone(),
        };
        (
            Field::new(*name, of_type.clone(), false),
            arrow::compute::cast(values, &of_type),
        )
    });
    let (fields, arrays): (Vec<_>, Vec<_>) = views.unzip();
    let schema = Arc::new(Schema::new(fields));
    let rows = columns.first().map_or(0, |(_, values)| values.len());
    let batch = RecordBatch::try_new(schema.clone(), arrays.into_iter().collect::<Result<Vec<_>, _>>()?)?;
    // The conditions say which table they mean; there is only one here.
    let bare = filter.clone();
    let bare = datafusion::common::tree_node::TreeNode::transform(bare, |expr| {
        Ok(match expr {
            Expr::Column(column) => {
                datafusion::common::tree_node::Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))
            }
            other => datafusion::common::tree_node::Transformed::no(other),
        })
    })?
    .data;
    let condition = state.create_physical_expr(bare, &DFSchema::try_from(schema)?)?;
    let values = condition.evaluate(&batch)?.into_array(rows)?;
    let values = values.as_boolean();
    Ok((0..rows).map(|row| values.is_valid(row) && values.value(row)).collect())
}

fn keep(wanted: &mut [bool], holds: &[bool]) {
    for (wanted, holds) in wanted.iter_mut().zip(holds) {
        *wanted &= holds;
    }
}

/// Leaves the part of time in which a condition can hold.
fn narrow(span: &mut Span, filter: &Expr) {
    let (left, operator, right) = match filter {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => (left, *op, right),
        Expr::Between(between) if !between.negated => {
            if let (true, Some(low), Some(high)) = (is_time(&between.expr), ns(&between.low), ns(&between.high)) {
                span.begin_ns = span.begin_ns.max(low);
                span.end_ns = span.end_ns.min(high);
            }
            return;
        }
        _ => return,
    };
    let (operator, ns) = if is_time(left) {
        (Some(operator), ns(right))
    } else if is_time(right) {
        (operator.swap(), ns(left))
    } else if operator == Operator::And {
        narrow(span, left);
        return narrow(span, right);
    } else {
        return;
    };
    let Some(ns) = ns else { return };
    match operator {
        Some(Operator::Gt | Operator::GtEq) => span.begin_ns = span.begin_ns.max(ns),
        Some(Operator::Lt | Operator::LtEq) => span.end_ns = span.end_ns.min(ns),
        Some(Operator::Eq) => {
            span.begin_ns = span.begin_ns.max(ns);
            span.end_ns = span.end_ns.min(ns);
        }
        _ => {}
    }
}

fn is_time(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(column) if column.name == "time" || column.name == "time_ns")
}

fn ns(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::TimestampNanosecond(ns, _) | ScalarValue::Int64(ns), _) => *ns,
        _ => None,
    }
}

/// A field that an event must have for the condition to hold: NULL is never equal, less, like.
fn needed(filter: &Expr) -> Option<&str> {
    let column = match filter {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(*op) => match (&**left, &**right) {
            (Expr::Column(column), Expr::Literal(..)) | (Expr::Literal(..), Expr::Column(column)) => column,
            _ => return None,
        },
        Expr::IsNotNull(inner) => column_of(inner)?,
        Expr::Like(like) => column_of(&like.expr)?,
        Expr::InList(list) => column_of(&list.expr)?,
        Expr::Between(between) => column_of(&between.expr)?,
        _ => return None,
    };
    let own = Common::of_name(&column.name).is_none();
    own.then_some(column.name.as_str())
}

/// NULL on either side makes NULL.
fn compares(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq, RegexIMatch, RegexMatch};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | RegexMatch | RegexIMatch)
}

fn column_of(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};

    use super::*;

    #[test]
    fn conditions_on_times_leave_a_part_of_time() {
        let left = |filter: Expr| {
            let mut span = Span::ALL;
            narrow(&mut span, &filter);
            (span.begin_ns, span.end_ns)
        };
        let (first, last) = (i64::MIN, i64::MAX);
        assert_eq!(left(col("time_ns").gt(lit(5_i64))), (5, last));
        assert_eq!(left(lit(5_i64).gt(col("time_ns"))), (first, 5));
        assert_eq!(left(col("time_ns").between(lit(5_i64), lit(9_i64))), (5, 9));
        assert_eq!(
            left(col("time_ns").gt(lit(5_i64)).and(col("time_ns").lt(lit(9_i64)))),
            (5, 9)
        );
        // Either may hold, so that nothing can be left out.
        assert_eq!(
            left(col("time_ns").gt(lit(5_i64)).or(col("number").gt(lit(1_i64)))),
            (first, last)
        );
        assert_eq!(left(col("number").gt(lit(5_i64))), (first, last));
    }

    #[test]
    fn what_null_can_fulfil_needs_no_field() {
        assert_eq!(needed(&col("ret").lt(lit(0_i64))), Some("ret"));
        assert_eq!(needed(&col("ret").is_not_null()), Some("ret"));
        assert_eq!(needed(&col("ret").is_null()), None);
        // Every event has one, of whatever context.
        assert_eq!(needed(&col("tid").eq(lit(1_i64))), None);
        assert_eq!(about(&col("name").eq(lit("a"))), About::Name);
        assert_eq!(about(&col("name").eq(col("comm"))), About::Other);
    }
}
