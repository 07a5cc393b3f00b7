//! What partitions make of values: the transforms of the Iceberg specification ("Partition Transforms"), over whole columns.
//!
//! Those of time and of whole numbers are made here. The iceberg crate's own (0.10) give another day to most instants before
//! 1970, no year beyond 262142, and overflow at the least number.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, Date32Array, Int32Array};
use arrow_schema::{DataType, TimeUnit};
use iceberg::spec::{Literal, PrimitiveLiteral, PrimitiveType, Transform};
use iceberg::transform::create_transform_function;

const MICROS_A_HOUR: i64 = 3_600_000_000;
const MICROS_A_DAY: i64 = 24 * MICROS_A_HOUR;

/// Transforms every value of a column; NULL stays NULL. The error says why that cannot be.
pub(crate) fn transform(transform: Transform, column: &ArrayRef) -> Result<ArrayRef, String> {
    match transform {
        Transform::Identity => Ok(Arc::clone(column)),
        Transform::Truncate(width) if column.data_type() == &DataType::Int32 => {
            // In 64 bits, since a width may be more than 32 hold; what comes out wraps as Java's does.
            #[expect(clippy::cast_possible_truncation, reason = "wraps as in Iceberg's own libraries")]
            let floor = |value: i32| multiple(i64::from(value), width) as i32;
            Ok(Arc::new(column.as_primitive::<Int32Type>().unary::<_, Int32Type>(floor)))
        }
        Transform::Truncate(width) if column.data_type() == &DataType::Int64 => {
            Ok(Arc::new(column.as_primitive::<Int64Type>().unary::<_, Int64Type>(|value| multiple(value, width))))
        }
        Transform::Year | Transform::Month | Transform::Day | Transform::Hour => of_time(transform, column),
        other => {
            let function = create_transform_function(&other).map_err(|error| error.to_string())?;
            function.transform(Arc::clone(column)).map_err(|error| error.to_string())
        }
    }
}

/// The greatest multiple of `width` that is not above the value.
fn multiple(value: i64, width: u32) -> i64 {
    value.wrapping_sub(value.rem_euclid(i64::from(width.max(1))))
}

fn of_time(transform: Transform, column: &ArrayRef) -> Result<ArrayRef, String> {
    let day = |micros: i64| narrow(micros.div_euclid(MICROS_A_DAY));
    Ok(match (transform, column.data_type()) {
        (Transform::Day, DataType::Date32) => Arc::clone(column),
        (_, DataType::Date32) => {
            let days = column.as_primitive::<Date32Type>();
            Arc::new(match transform {
                Transform::Year => days.unary::<_, Int32Type>(|day| year_and_month(day).0),
                Transform::Month => days.unary::<_, Int32Type>(months),
                _ => return Err(format!("{transform} takes no date")),
            })
        }
        (_, DataType::Timestamp(TimeUnit::Microsecond, _)) => {
            let instants = column.as_primitive::<TimestampMicrosecondType>();
            match transform {
                Transform::Day => Arc::new(instants.unary::<_, Date32Type>(day)) as ArrayRef,
                Transform::Year => Arc::new(instants.unary::<_, Int32Type>(|micros| year_and_month(day(micros)).0)),
                Transform::Month => Arc::new(instants.unary::<_, Int32Type>(|micros| months(day(micros)))),
                _ => Arc::new(instants.unary::<_, Int32Type>(|micros| narrow(micros.div_euclid(MICROS_A_HOUR)))),
            }
        }
        (_, other) => return Err(format!("{transform} takes no {other}")),
    })
}

/// Hours beyond the year 246953 are all the last one that there is a number for.
fn narrow(count: i64) -> i32 {
    i32::try_from(count).unwrap_or(if count < 0 { i32::MIN } else { i32::MAX })
}

fn months(day: i32) -> i32 {
    let (year, month) = year_and_month(day);
    year * 12 + month
}

/// Years since 1970 and the month, from 0, of a day since 1970-01-01. Counted in years that begin with March, of which 400 make up
/// 146,097 days, so that a leap day is the last of its year.
fn year_and_month(day: i32) -> (i32, i32) {
    let days = i64::from(day) + 719_468; // since 0000-03-01
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march_based = (5 * of_year + 2) / 153;
    let month = (march_based + 2) % 12;
    let year = era * 400 + year + i64::from(month < 2) - 1970;
    (narrow(year), narrow(month))
}

/// A value of a transformed column, as a manifest has it; None for NULL.
pub(crate) fn literal(column: &ArrayRef, row: usize, ty: &PrimitiveType) -> Result<Option<Literal>, String> {
    if column.is_null(row) {
        return Ok(None);
    }
    let value = match (ty, column.data_type()) {
        (PrimitiveType::Boolean, DataType::Boolean) => PrimitiveLiteral::Boolean(column.as_boolean().value(row)),
        (PrimitiveType::Int | PrimitiveType::Date, DataType::Int32) => {
            PrimitiveLiteral::Int(column.as_any().downcast_ref::<Int32Array>().ok_or("no numbers")?.value(row))
        }
        (PrimitiveType::Int | PrimitiveType::Date, DataType::Date32) => {
            PrimitiveLiteral::Int(column.as_any().downcast_ref::<Date32Array>().ok_or("no dates")?.value(row))
        }
        (PrimitiveType::Long, DataType::Int64) => PrimitiveLiteral::Long(column.as_primitive::<Int64Type>().value(row)),
        (PrimitiveType::Time, DataType::Time64(TimeUnit::Microsecond)) => {
            PrimitiveLiteral::Long(column.as_primitive::<arrow_array::types::Time64MicrosecondType>().value(row))
        }
        (PrimitiveType::Timestamp | PrimitiveType::Timestamptz, DataType::Timestamp(TimeUnit::Microsecond, _)) => {
            PrimitiveLiteral::Long(column.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        (PrimitiveType::Decimal { .. }, DataType::Decimal128(..)) => {
            PrimitiveLiteral::Int128(column.as_primitive::<arrow_array::types::Decimal128Type>().value(row))
        }
        (PrimitiveType::String, DataType::Utf8) => {
            PrimitiveLiteral::String(column.as_string::<i32>().value(row).to_owned())
        }
        (PrimitiveType::Binary, DataType::Binary) => {
            PrimitiveLiteral::Binary(column.as_binary::<i32>().value(row).to_vec())
        }
        (PrimitiveType::Uuid, DataType::FixedSizeBinary(16)) => {
            let bytes = column.as_fixed_size_binary().value(row).try_into().map_err(|_| "a uuid is not of 16 bytes")?;
            PrimitiveLiteral::UInt128(u128::from_be_bytes(bytes))
        }
        (ty, other) => return Err(format!("{other} makes no partition by {ty}")),
    };
    Ok(Some(Literal::Primitive(value)))
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, StringArray, TimestampMicrosecondArray};

    use super::*;

    fn timestamps(transform: Transform, micros: &[i64]) -> Vec<i32> {
        let column: ArrayRef = Arc::new(TimestampMicrosecondArray::from(micros.to_vec()));
        let result = super::transform(transform, &column).unwrap();
        match result.data_type() {
            DataType::Date32 => result.as_primitive::<Date32Type>().values().to_vec(),
            _ => result.as_primitive::<Int32Type>().values().to_vec(),
        }
    }

    /// The day by day calendar, which knows nothing of eras.
    #[test]
    fn years_and_months_are_those_of_the_calendar() {
        let leap = |year: i32| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let (mut year, mut month, mut left) = (1970, 0, 31);
        for day in 0..500_000 {
            assert_eq!(year_and_month(day), (year - 1970, month), "{day}");
            left -= 1;
            if left == 0 {
                month = (month + 1) % 12;
                year += i32::from(month == 0);
                left = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
                    [usize::try_from(month).unwrap()];
            }
        }
        let (mut year, mut month, mut left) = (1969, 11, 31);
        for day in (-1_000_000..0).rev() {
            assert_eq!(year_and_month(day), (year - 1970, month), "{day}");
            left -= 1;
            if left == 0 {
                year -= i32::from(month == 0);
                month = (month + 11) % 12;
                left = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
                    [usize::try_from(month).unwrap()];
            }
        }
    }

    #[test]
    fn time_is_rounded_down_on_both_sides_of_1970() {
        let day = MICROS_A_DAY;
        let micros = [0, day - 1, -1, -day, -day - 1, -day - day / 2, i64::MAX, i64::MIN];
        assert_eq!(timestamps(Transform::Day, &micros)[..6], [0, 0, -1, -1, -2, -2]);
        assert_eq!(timestamps(Transform::Hour, &micros)[..6], [0, 23, -1, -24, -25, -36]);
        assert_eq!(timestamps(Transform::Year, &micros)[..6], [0, 0, -1, -1, -1, -1]);
        assert_eq!(timestamps(Transform::Month, &micros)[..6], [0, 0, -1, -1, -1, -1]);
        assert_eq!(timestamps(Transform::Year, &micros)[6..], [292_277, -292_278]);
        assert_eq!(timestamps(Transform::Hour, &micros)[6..], [i32::MAX, i32::MIN]);
        let dates: ArrayRef = Arc::new(Date32Array::from(vec![Some(0), Some(-1), Some(19_723), None]));
        let of = |transform| {
            super::transform(transform, &dates).unwrap().as_primitive::<Int32Type>().iter().collect::<Vec<_>>()
        };
        assert_eq!(of(Transform::Year), [Some(0), Some(-1), Some(54), None]);
        assert_eq!(of(Transform::Month), [Some(0), Some(-1), Some(648), None]);
        assert!(super::transform(Transform::Hour, &dates).is_err());
    }

    /// Appendix B of the specification, and what "Truncate Transform Details" says of negative numbers.
    #[test]
    fn buckets_and_multiples_are_those_of_the_specification() {
        let longs: ArrayRef = Arc::new(Int64Array::from(vec![Some(34), Some(-1), Some(i64::MIN), None]));
        let buckets = super::transform(Transform::Bucket(i32::MAX.unsigned_abs()), &longs).unwrap();
        assert_eq!(buckets.as_primitive::<Int32Type>().value(0), 2_017_239_379);
        assert!(buckets.is_null(3));
        let multiples = super::transform(Transform::Truncate(10), &longs).unwrap();
        let least = i64::MIN.wrapping_sub(2);
        assert_eq!(
            multiples.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(),
            [Some(30), Some(-10), Some(least), None]
        );
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["iceberg", "ñandú", ""]));
        let cut = super::transform(Transform::Truncate(3), &texts).unwrap();
        assert_eq!(cut.as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["ice", "ñan", ""]);
        let hashed = super::transform(Transform::Bucket(i32::MAX.unsigned_abs()), &texts).unwrap();
        assert_eq!(hashed.as_primitive::<Int32Type>().value(0), 1_210_000_089);
    }
}
