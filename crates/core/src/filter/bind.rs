//! A condition meets the columns of a table: each literal becomes a value of its column's type, or the condition is refused.

use std::cmp::Ordering;

use uuid::Uuid;

use super::literal::{day, instant, time, timestamp};
use super::number::Point;
use super::parse::{Comparison, Condition, Literal};
use crate::{Column, ColumnType};

/// A condition, with the places of its columns and values of their types.
#[derive(Clone, Debug)]
pub(super) enum Bound {
    And(Vec<Bound>),
    Or(Vec<Bound>),
    Not(Box<Bound>),
    Compare(usize, Comparison, Constant),
    In(usize, Vec<Constant>),
    IsNull(usize),
}

/// A literal as a value of its column's type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Constant {
    Boolean(bool),
    /// Of what counts in whole numbers: numbers, decimals, days and times.
    Number(Point),
    Float(f64),
    Text(String),
    Uuid([u8; 16]),
}

impl Comparison {
    /// Whether it holds of a value that lies so to the literal.
    pub(super) fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::Unequal => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl Bound {
    pub(super) fn of(condition: &Condition, columns: &[Column]) -> Result<Self, String> {
        let all = |conditions: &[Condition]| {
            conditions.iter().map(|one| Self::of(one, columns)).collect::<Result<Vec<Self>, String>>()
        };
        Ok(match condition {
            Condition::And(conditions) => Self::And(all(conditions)?),
            Condition::Or(conditions) => Self::Or(all(conditions)?),
            Condition::Not(one) => Self::Not(Box::new(Self::of(one, columns)?)),
            Condition::IsNull(name) => Self::IsNull(find(name, columns)?),
            Condition::Compare(name, comparison, literal) => {
                let at = find(name, columns)?;
                Self::Compare(at, *comparison, Constant::of(literal, &columns[at])?)
            }
            Condition::In(name, literals) => {
                let at = find(name, columns)?;
                let constants = literals.iter().map(|literal| Constant::of(literal, &columns[at]));
                Self::In(at, constants.collect::<Result<_, _>>()?)
            }
        })
    }
}

fn find(name: &str, columns: &[Column]) -> Result<usize, String> {
    columns.iter().position(|column| column.name == name).ok_or_else(|| {
        let known: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        format!("there is no column {name} in the lake; there are {}", known.join(", "))
    })
}

impl Constant {
    fn of(literal: &Literal, column: &Column) -> Result<Self, String> {
        let unlike = |needed: &str| {
            let (name, ty) = (&column.name, &column.ty);
            format!("column {name} is {ty}, which is not compared with {literal}: write {needed}")
        };
        let text = |needed, of: &dyn Fn(&str) -> Option<Constant>| match literal {
            Literal::Text(text) => of(text).ok_or_else(|| unlike(needed)),
            _ => Err(unlike(needed)),
        };
        let micros = |number: i64| Self::Number(Point::At(number.into()));
        match &column.ty {
            ColumnType::Boolean => match literal {
                Literal::Boolean(value) => Ok(Self::Boolean(*value)),
                _ => Err(unlike("true or false")),
            },
            ColumnType::Int | ColumnType::Long | ColumnType::Decimal { .. } => {
                let scale = if let ColumnType::Decimal { scale, .. } = column.ty { scale } else { 0 };
                let point = match literal {
                    Literal::Number(digits) => Point::parse(digits, scale),
                    _ => None,
                };
                point.map(Self::Number).ok_or_else(|| unlike("a number without quotes"))
            }
            ColumnType::Float | ColumnType::Double => {
                let number = match literal {
                    Literal::Number(digits) | Literal::Text(digits) => digits.parse().ok(),
                    Literal::Boolean(_) => None,
                };
                number.map(Self::Float).ok_or_else(|| unlike("a number, or 'NaN', 'Infinity' or '-Infinity'"))
            }
            ColumnType::String => text("a text in single quotes", &|text| Some(Self::Text(text.to_owned()))),
            ColumnType::Date => text("a day as 'YYYY-MM-DD'", &|text| Some(micros(day(text)?.into()))),
            ColumnType::Time => text("a time as 'HH:MM:SS'", &|text| Some(micros(time(text)?))),
            ColumnType::Timestamp => text("a time as 'YYYY-MM-DD HH:MM:SS'", &|text| Some(micros(timestamp(text)?))),
            ColumnType::TimestampTz => {
                text("a time as 'YYYY-MM-DD HH:MM:SS+00:00'", &|text| Some(micros(instant(text)?)))
            }
            ColumnType::Uuid => text("a uuid in single quotes", &|text| {
                Uuid::try_parse(text).ok().map(|uuid| Self::Uuid(uuid.into_bytes()))
            }),
            ColumnType::Binary | ColumnType::List(_) | ColumnType::Map => {
                Err(format!("column {} is {}, of which only IS NULL is asked", column.name, column.ty))
            }
        }
    }
}
