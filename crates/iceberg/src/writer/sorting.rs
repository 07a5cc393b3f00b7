//! The order of the rows of a file, as the table's metadata declares it.

use arrow_array::{ArrayRef, UInt32Array};
use arrow_ord::sort::{SortColumn, SortOptions, lexsort_to_indices};
use arrow_schema::ArrowError;
use arrow_select::take::take;
use iceberg::spec::{NullOrder, SortDirection, SortOrder, Transform};

/// By which columns rows are sorted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sorting {
    columns: Vec<(usize, SortOptions)>,
    /// The order's id in the table's metadata.
    order_id: Option<i32>,
}

impl Sorting {
    /// The order of batches whose columns have these field ids. One by what is no column of theirs, which somebody else may have
    /// declared, is not followed.
    pub(crate) fn of(order: &SortOrder, columns: &[i32]) -> Self {
        let column = |by: &iceberg::spec::SortField| {
            let at = columns.iter().position(|id| *id == by.source_id)?;
            let options = SortOptions {
                descending: by.direction == SortDirection::Descending,
                nulls_first: by.null_order == NullOrder::First,
            };
            (by.transform == Transform::Identity).then_some((at, options))
        };
        match order.fields.iter().map(column).collect::<Option<Vec<_>>>() {
            Some(columns) if !columns.is_empty() => Self { columns, order_id: i32::try_from(order.order_id).ok() },
            _ => Self::default(),
        }
    }

    /// The id of the order that files of sorted rows have.
    pub(crate) fn order_id(&self) -> Option<i32> {
        self.order_id
    }

    /// The rows in their order.
    pub(crate) fn sorted(&self, columns: Vec<ArrayRef>) -> Result<Vec<ArrayRef>, ArrowError> {
        if self.columns.is_empty() {
            return Ok(columns);
        }
        let by = |(at, options): &(usize, SortOptions)| {
            let values = columns.get(*at).cloned();
            let values = values.ok_or_else(|| ArrowError::SchemaError("a column to sort by is missing".to_owned()))?;
            Ok(SortColumn { values, options: Some(*options) })
        };
        let by = self.columns.iter().map(by).collect::<Result<Vec<_>, ArrowError>>()?;
        let order = lexsort_to_indices(&by, None)?;
        taken(&columns, &order)
    }
}

/// These rows of every column.
pub(super) fn taken(columns: &[ArrayRef], rows: &UInt32Array) -> Result<Vec<ArrayRef>, ArrowError> {
    columns.iter().map(|column| take(column, rows, None)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{Int64Array, StringArray};
    use iceberg::spec::SortField;

    use super::*;

    fn order(by: &[(i32, SortDirection, NullOrder)]) -> SortOrder {
        let field = |(source_id, direction, null_order): &(i32, SortDirection, NullOrder)| SortField {
            source_id: *source_id,
            transform: Transform::Identity,
            direction: *direction,
            null_order: *null_order,
        };
        SortOrder { order_id: 3, fields: by.iter().map(field).collect() }
    }

    #[test]
    fn rows_stand_in_the_declared_order() {
        use NullOrder::{First, Last};
        use SortDirection::{Ascending, Descending};
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from((0..6).collect::<Vec<_>>())),
            Arc::new(StringArray::from(vec![Some("b"), None, Some("a"), Some("b"), None, Some("a")])),
        ];
        let ids = |order: &SortOrder| {
            let sorting = Sorting::of(order, &[1, 2]);
            let sorted = sorting.sorted(columns.clone()).unwrap();
            (sorted[0].as_primitive::<Int64Type>().values().to_vec(), sorting.order_id())
        };
        assert_eq!(ids(&order(&[(2, Ascending, First), (1, Descending, Last)])), (vec![4, 1, 5, 2, 3, 0], Some(3)));
        assert_eq!(ids(&order(&[(2, Descending, Last), (1, Ascending, First)])), (vec![0, 3, 2, 5, 1, 4], Some(3)));
        // By what is not written, and by nothing.
        for other in [order(&[(2, Ascending, First), (9, Ascending, First)]), SortOrder::unsorted_order()] {
            assert_eq!(ids(&other), (vec![0, 1, 2, 3, 4, 5], None));
        }
    }
}
