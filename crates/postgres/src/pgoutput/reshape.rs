//! What became of a table whose rows come in another shape.
//!
//! The log names the columns of a row and their types. Which column is which is known for certain only where the table's
//! schema so far, the shape in the log and the catalog as it is now (which may be ahead of the log) agree; where they do not,
//! nothing is guessed, and the table is to be read again.

use std::sync::Arc;

use calve_core::{Column, ColumnType, ColumnUse, NativeType, SchemaChange, TableRules, TableSchema};

use super::plan::{Shape, ShapeColumn};
use crate::attributes::Attribute;
use crate::types::{built_in, built_in_type, element_of, oid};

/// The schema that rows of this shape have; None where it is the present one. The rules say what the lake shall get of columns that come,
/// or get another name. The error says why it cannot be told, or why
/// rows in the lake cannot be what they are at the source.
pub(super) fn reshape(
    schema: &TableSchema,
    shape: &Shape,
    attributes: &[Attribute],
    rules: &TableRules,
) -> Result<Option<SchemaChange>, String> {
    let numbered = !attributes.is_empty() && schema.columns.iter().all(|column| column.id != 0);
    if let Some(difference) = difference(shape, schema) {
        if !numbered {
            return Err(difference);
        }
    } else {
        let replaced = |column: &&Column| {
            let alive = |attribute: &&Attribute| !attribute.dropped && attribute.column.name == column.name;
            attributes.iter().find(alive).is_some_and(|now| now.column.id != column.id)
                && attributes.iter().any(|attribute| attribute.dropped && attribute.column.id == column.id)
                && !column.usage.is_left_out()
        };
        return match schema.columns.iter().find(replaced).filter(|_| numbered) {
            Some(column) => Err(format!("column {} was dropped and added again", column.name)),
            None => Ok(with_left_out(schema, attributes)),
        };
    }
    let mut change = Change { schema, shape, attributes, rules, last: 0, existing_rows: None };
    let mut columns = Vec::with_capacity(shape.columns.len());
    for column in &shape.columns {
        let column = change.column(column)?;
        change.last = column.id;
        columns.push(column);
    }
    if !columns.is_sorted_by(|a, b| a.id < b.id) {
        return Err("columns were dropped and added again under names that were there before".to_owned());
    }
    let place = |key: &Column| columns.iter().position(|column| column.id == key.id);
    let key = schema.key_columns().map(place).collect::<Option<Vec<_>>>();
    let key = key.ok_or("a column of its key was dropped")?;
    let existing_rows = change.existing_rows.take();
    let mut left_out = left_out(schema, attributes);
    left_out.retain(|id| columns.iter().all(|column| column.id != *id));
    let next = TableSchema { columns, key, left_out, ..schema.clone() };
    Ok(Some(SchemaChange { schema: Arc::new(next), existing_rows }))
}

/// The schema with the columns that the log does not carry, where these became more. It is kept with the table's rows: a column
/// that is computed no longer looks like one that was added.
fn with_left_out(schema: &TableSchema, attributes: &[Attribute]) -> Option<SchemaChange> {
    let before = schema.left_out.len();
    let left_out = left_out(schema, attributes);
    let schema = TableSchema { left_out, ..schema.clone() };
    (schema.left_out.len() > before).then(|| SchemaChange { schema: Arc::new(schema), existing_rows: None })
}

/// Numbers of the columns that rows in the log do not have, those of before included.
fn left_out(schema: &TableSchema, attributes: &[Attribute]) -> Vec<u32> {
    let mut left_out = schema.left_out.clone();
    let computed = attributes.iter().filter(|now| now.generated && !now.dropped).map(|now| now.column.id);
    left_out.extend(computed.filter(|id| !schema.left_out.contains(id)));
    left_out
}

struct Change<'a> {
    schema: &'a TableSchema,
    shape: &'a Shape,
    attributes: &'a [Attribute],
    rules: &'a TableRules,
    /// The number of the column before: they grow.
    last: u32,
    existing_rows: Option<String>,
}

impl Change<'_> {
    /// The column that a place of the shape is.
    fn column(&mut self, column: &ShapeColumn) -> Result<Column, String> {
        let now = self.attributes.iter().find(|now| !now.dropped && now.column.name == column.name);
        let before = self.schema.columns.iter().find(|before| before.name == column.name);
        match (before, now) {
            // It stands where the old one of its name cannot stand.
            (Some(before), Some(now)) if before.id < self.last && self.last < now.column.id => self.added(now, column),
            // Where the lake gets nothing of the column, which of the two it is makes no difference.
            (Some(before), Some(now)) if before.id != now.column.id && !before.usage.is_left_out() => {
                Err(format!("column {} was dropped, or renamed, and another took its name", column.name))
            }
            (Some(before), _) => self.stayed(before, column),
            (None, Some(now)) => match self.schema.columns.iter().find(|before| before.id == now.column.id) {
                Some(before) if self.shape.columns.iter().any(|other| other.name == before.name) => {
                    Err(format!("column {} was renamed to {}, and another took its name", before.name, column.name))
                }
                Some(before) => self.stayed(before, column),
                None => self.added(now, column),
            },
            (None, None) => Err(format!("column {} was added or renamed, and is gone again since", column.name)),
        }
    }

    /// A column that was there before, under this name or another.
    fn stayed(&mut self, before: &Column, column: &ShapeColumn) -> Result<Column, String> {
        let now = self.attributes.iter().find(|now| !now.dropped && now.column.id == before.id);
        let had = (before.native.id, before.native.modifier);
        let has = (column.type_oid, column.modifier);
        let mut next = before.clone();
        if before.name != column.name && self.schema.key_columns().all(|key| key.id != before.id) {
            next.usage = self.rules.usage_of_renamed(&before.usage, &column.name);
        }
        if next.usage.is_left_out() {
            // Its type tells apart one shape from another, and no more.
            next.native = NativeType { name: before.native.name.clone(), ..NativeType::new(has.0, has.1, "") };
            next.name.clone_from(&column.name);
            return Ok(next);
        }
        if had != has {
            let now = now.filter(|now| (now.column.native.id, now.column.native.modifier) == has);
            let (ty, native) = match now {
                Some(now) => (now.column.ty.clone(), now.column.native.clone()),
                // It changed once more since, and the type in between is one whose numbers say all of it.
                // A type that was chosen for the column stays.
                None if keeps_values(had, has) => {
                    let own = before.ty == built_in_type(had.0, had.1);
                    let ty = if own { built_in_type(has.0, has.1) } else { before.ty.clone() };
                    (ty, built_in(has.0, has.1))
                }
                None => return Err(format!("the type of column {} changed more than once", column.name)),
            };
            // As text the same number has other digits.
            let printed = before.ty == ColumnType::String && element_of(had.0).unwrap_or(had.0) == oid::FLOAT4;
            // An array that was loaded as text, as versions did that knew no lists, is text until it is read again.
            let still_text = before.ty == ColumnType::String && matches!(ty, ColumnType::List(_));
            let as_text = (still_text && keeps_values(had, has)) || matches!(next.usage, ColumnUse::Masked(_));
            let ty = if as_text { ColumnType::String } else { ty };
            if printed || !keeps_values(had, has) {
                self.existing_rows.get_or_insert(format!(
                    "the type of column {} changed from {} to {}",
                    column.name, before.native.name, native.name
                ));
            }
            (next.ty, next.native) = (ty, native);
        }
        next.name.clone_from(&column.name);
        next.nullable |= now.is_some_and(|now| now.column.nullable);
        Ok(next)
    }

    fn added(&mut self, now: &Attribute, column: &ShapeColumn) -> Result<Column, String> {
        let usage = self.rules.usage_of_added(&column.name);
        if usage.is_left_out() {
            let native = NativeType { id: column.type_oid, modifier: column.modifier, ..now.column.native.clone() };
            return Ok(Column { nullable: true, native, usage, ..now.column.clone() });
        }
        if (now.column.native.id, now.column.native.modifier) != (column.type_oid, column.modifier) {
            return Err(format!("column {} was added, and its type changed since", column.name));
        }
        if now.filled {
            self.existing_rows.get_or_insert(format!(
                "column {} was added with a default, or NOT NULL: rows that were there have a value in it",
                column.name
            ));
        }
        Ok(Column { nullable: true, usage, ..now.column.clone() })
    }
}

/// Whether a change of type leaves every value what it was, told without an expression (USING).
fn keeps_values((from, from_modifier): (u32, i32), (to, to_modifier): (u32, i32)) -> bool {
    let text = |id| id == oid::VARCHAR || id == oid::TEXT;
    // A modifier of -1 is no limit.
    let wider = to_modifier == -1 || (from_modifier != -1 && from_modifier <= to_modifier);
    if let (Some(from), Some(to)) = (element_of(from), element_of(to)) {
        return keeps_values((from, from_modifier), (to, to_modifier));
    }
    match (from, to) {
        (oid::INT2, oid::INT4 | oid::INT8) | (oid::INT4, oid::INT8) | (oid::FLOAT4, oid::FLOAT8) => true,
        (oid::NUMERIC, oid::NUMERIC) => {
            // Precision above, scale in the low 11 bits.
            let scale = |modifier: i32| (modifier - 4) & 0x7ff;
            from_modifier >= 4 && to_modifier >= from_modifier && scale(from_modifier) == scale(to_modifier)
        }
        (from, to) if text(from) && text(to) => wider,
        (oid::TIMESTAMP, oid::TIMESTAMP) | (oid::TIMESTAMPTZ, oid::TIMESTAMPTZ) | (oid::TIME, oid::TIME) => wider,
        _ => false,
    }
}

/// How the shape differs from the schema, by what the log alone tells.
fn difference(shape: &Shape, schema: &TableSchema) -> Option<String> {
    let had = |name: &str| schema.columns.iter().any(|column| column.name == name);
    let has = |name: &str| shape.columns.iter().any(|column| column.name == name);
    let added: Vec<_> = shape.columns.iter().filter(|c| !had(&c.name)).map(|c| c.name.as_str()).collect();
    let dropped: Vec<_> = schema.columns.iter().filter(|c| !has(&c.name)).map(|c| c.name.as_str()).collect();
    match (&added[..], &dropped[..]) {
        ([], []) => {}
        ([], dropped) => return Some(format!("column {} was dropped", dropped.join(", "))),
        (added, []) => return Some(format!("column {} was added", added.join(", "))),
        (added, dropped) => {
            return Some(format!(
                "column {} was renamed to, or dropped and replaced by, {}",
                dropped.join(", "),
                added.join(", ")
            ));
        }
    }
    for (now, before) in shape.columns.iter().zip(&schema.columns) {
        if now.name != before.name {
            return Some(format!("column {} was dropped and added again, or columns changed places", before.name));
        }
        if (now.type_oid, now.modifier) != (before.native.id, before.native.modifier) {
            return Some(format!("the type of column {} changed; it was {}", now.name, before.native.name));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use calve_core::{ColumnPattern, ColumnSelection, Evolution, TableName};

    use super::*;

    const NUMERIC_10_2: i32 = (10 << 16 | 2) + 4;

    /// Number, name, type, modifier.
    type Named = (u32, &'static str, u32, i32);

    fn column(&(id, name, type_oid, modifier): &Named) -> Column {
        let ty = built_in_type(type_oid, modifier);
        Column {
            id,
            name: name.to_owned(),
            ty,
            nullable: id != 1,
            native: NativeType::new(type_oid, modifier, "?"),
            usage: ColumnUse::Values,
        }
    }

    fn schema(columns: &[Named]) -> TableSchema {
        let columns = columns.iter().map(column).collect();
        TableSchema::new(TableName::new("public", "t"), 9, columns, vec![0])
    }

    fn shape(columns: &[Named]) -> Shape {
        let columns = columns.iter().map(|&(id, name, type_oid, modifier)| ShapeColumn {
            name: name.to_owned(),
            type_oid,
            modifier,
            is_key: id == 1,
        });
        Shape { name: TableName::new("public", "t"), has_identity: true, key_known: true, columns: columns.collect() }
    }

    /// The catalog: what is dropped, and what is there.
    fn attributes(dropped: &[u32], columns: &[Named]) -> Vec<Attribute> {
        let there = |named: &Named| Attribute {
            column: column(named),
            dropped: false,
            filled: named.1.starts_with("filled"),
            generated: named.1.starts_with("computed"),
        };
        let gone = |&id: &u32| Attribute {
            column: column(&(id, "........pg.dropped........", 0, -1)),
            dropped: true,
            filled: false,
            generated: false,
        };
        let mut all: Vec<_> = dropped.iter().map(gone).chain(columns.iter().map(there)).collect();
        all.sort_by_key(|attribute| attribute.column.id);
        all
    }

    const ID: Named = (1, "id", oid::INT8, -1);
    const NAME: Named = (2, "name", oid::TEXT, -1);
    const PRICE: Named = (3, "price", oid::NUMERIC, NUMERIC_10_2);

    fn became(seen: &[Named], dropped: &[u32], now: &[Named]) -> Result<Option<SchemaChange>, String> {
        reshape(&schema(&[ID, NAME, PRICE]), &shape(seen), &attributes(dropped, now), &TableRules::default())
    }

    /// Numbers, names and nothing said of rows that were there.
    fn kept(seen: &[Named], dropped: &[u32], now: &[Named]) -> Vec<(u32, String)> {
        let change = became(seen, dropped, now).unwrap().expect("the shape is another");
        assert_eq!(change.existing_rows, None);
        assert_eq!(schema(&[ID, NAME, PRICE]).evolution(&change.schema), Evolution::Kept);
        change.schema.columns.iter().map(|column| (column.id, column.name.clone())).collect()
    }

    fn named(columns: &[Named]) -> Vec<(u32, String)> {
        columns.iter().map(|(id, name, ..)| (*id, (*name).to_owned())).collect()
    }

    #[test]
    fn columns_are_told_by_their_numbers() {
        let all = [ID, NAME, PRICE];
        assert_eq!(became(&all, &[], &all), Ok(None));
        let note = (4, "note", oid::TEXT, -1);
        let title = (2, "title", oid::TEXT, -1);
        let wide = (3, "price", oid::NUMERIC, NUMERIC_10_2 + (2 << 16));
        let key = (1, "key", oid::INT8, -1);
        for (seen, dropped) in [
            (vec![ID, NAME, PRICE, note], vec![]),
            (vec![ID, PRICE], vec![2]),
            (vec![ID, title, PRICE], vec![]),
            (vec![ID, title, wide, note], vec![]),
            (vec![key, NAME, PRICE], vec![]),
            (vec![ID, PRICE, (4, "name", oid::TEXT, -1)], vec![2]),
        ] {
            assert_eq!(kept(&seen, &dropped, &seen), named(&seen), "{seen:?}");
        }
    }

    /// The lake gets no columns whose names begin so.
    fn less_notes() -> TableRules {
        TableRules { selection: ColumnSelection::Without(vec![ColumnPattern::new("note*")]), ..TableRules::default() }
    }

    #[test]
    fn what_is_left_out_may_become_anything() {
        let note = (4, "note", oid::TEXT, -1);
        let mut before = schema(&[ID, NAME, note]);
        before.columns[2].usage = ColumnUse::LeftOut;
        let became = |seen: &[Named], dropped: &[u32], now: &[Named]| {
            let change = reshape(&before, &shape(seen), &attributes(dropped, now), &less_notes())?;
            let change = change.ok_or("the same")?;
            let kept = before.evolution(&change.schema) == Evolution::Kept && change.existing_rows.is_none();
            Ok::<_, String>((change.schema.kept().columns.len(), kept))
        };
        let filled = (5, "note_filled", oid::INT8, -1);
        let filled_now = Attribute { filled: true, ..attributes(&[], &[filled]).remove(0) };
        for (seen, dropped, expected) in [
            (vec![ID, NAME], vec![4], Ok((2, true))),
            (vec![ID, NAME, (4, "note2", oid::TEXT, -1)], vec![], Ok((2, true))),
            (vec![ID, NAME, (4, "note", oid::INT4, -1)], vec![], Ok((2, true))),
            (vec![ID, NAME, note, filled], vec![], Ok((2, true))),
            // Another under the name that the last one had.
            (vec![ID, NAME, (5, "note", oid::TEXT, -1)], vec![4], Err("the same".to_owned())),
            // One comes in, one goes out, and a key stays.
            (vec![ID, NAME, (4, "text", oid::TEXT, -1)], vec![], Ok((3, false))),
            (vec![ID, (2, "note3", oid::TEXT, -1), note], vec![], Ok((1, true))),
            (vec![(1, "note_id", oid::INT8, -1), NAME, note], vec![], Ok((2, true))),
        ] {
            assert_eq!(became(&seen, &dropped, &seen), expected, "{seen:?}");
        }
        let now: Vec<_> = attributes(&[], &[ID, NAME, note]).into_iter().chain([filled_now]).collect();
        let change = reshape(&before, &shape(&[ID, NAME, note, filled]), &now, &less_notes()).unwrap().unwrap();
        assert_eq!(change.existing_rows, None);
    }

    #[test]
    fn what_is_added_stays_out_where_that_is_asked_for() {
        let rules = TableRules { leaves_out_added: true, ..TableRules::default() };
        let filled = (4, "filled", oid::INT4, -1);
        let now = attributes(&[], &[ID, NAME, PRICE, filled]);
        let added = reshape(&schema(&[ID, NAME, PRICE]), &shape(&[ID, NAME, PRICE, filled]), &now, &rules);
        let SchemaChange { schema: after, existing_rows } = added.unwrap().unwrap();
        assert_eq!((after.kept().columns.len(), after.columns[3].usage.clone()), (3, ColumnUse::LeftOut));
        assert_eq!(existing_rows, None);
        // Under another name and type too; and columns that the lake has stay in it.
        let seen = [ID, (2, "title", oid::TEXT, -1), PRICE, (4, "other", oid::TEXT, -1)];
        let renamed = reshape(&after, &shape(&seen), &attributes(&[], &seen), &rules).unwrap().unwrap();
        assert_eq!((renamed.schema.kept().columns.len(), renamed.existing_rows), (3, None));
        assert_eq!(after.evolution(&renamed.schema), Evolution::Kept);
    }

    #[test]
    fn a_catalog_ahead_of_the_log_does_not_mislead() {
        let title = (2, "title", oid::TEXT, -1);
        let note = (4, "note", oid::TEXT, -1);
        // Renamed or dropped later than the rows at hand.
        assert_eq!(became(&[ID, NAME, PRICE], &[], &[ID, title, PRICE]), Ok(None));
        assert_eq!(became(&[ID, NAME, PRICE], &[2], &[ID, PRICE]), Ok(None));
        assert_eq!(kept(&[ID, NAME, PRICE, note], &[2], &[ID, PRICE, note]), named(&[ID, NAME, PRICE, note]));
        // A type on its way to a wider one.
        let wider = |digits: i32| (3, "price", oid::NUMERIC, NUMERIC_10_2 + (digits << 16));
        let seen = [ID, NAME, wider(2)];
        let change = became(&seen, &[], &[ID, NAME, wider(5)]).unwrap().expect("the type is another");
        assert_eq!((change.existing_rows, change.schema.columns[2].native.name.as_str()), (None, "numeric(12,2)"));
        assert_eq!(change.schema.columns[2].ty, ColumnType::Decimal { precision: 12, scale: 2 });
        for (seen, dropped, now, why) in [
            // Added and gone again, or renamed twice.
            (vec![ID, NAME, PRICE, note], vec![4], vec![ID, NAME, PRICE], "gone again"),
            (vec![ID, title, PRICE], vec![], vec![ID, (2, "label", oid::TEXT, -1), PRICE], "gone again"),
            // The last column, dropped and added again under its name: the log does not show when.
            (vec![ID, NAME, PRICE], vec![3], vec![ID, NAME, (4, "price", oid::NUMERIC, NUMERIC_10_2)], "added again"),
            (vec![ID, NAME, PRICE, note], vec![2], vec![ID, PRICE, note, (5, "name", oid::TEXT, -1)], "took its name"),
            (
                vec![ID, title, PRICE, (4, "name", oid::TEXT, -1)],
                vec![],
                vec![ID, title, PRICE, (4, "name", oid::TEXT, -1)],
                "took its name",
            ),
            (
                vec![ID, NAME, (3, "price", oid::TEXT, -1)],
                vec![],
                vec![ID, NAME, (3, "price", oid::INT8, -1)],
                "more than once",
            ),
            (
                vec![ID, (2, "name", oid::VARCHAR, 14), PRICE],
                vec![],
                vec![ID, (2, "name", oid::VARCHAR, 24), PRICE],
                "more than once",
            ),
            (vec![NAME, PRICE], vec![1], vec![NAME, PRICE], "key"),
        ] {
            let error = became(&seen, &dropped, &now).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn what_the_log_does_not_carry_is_said() {
        let filled = (4, "filled", oid::TEXT, -1);
        let text = (3, "price", oid::TEXT, -1);
        for (seen, why) in [(vec![ID, NAME, PRICE, filled], "filled"), (vec![ID, NAME, text], "price")] {
            let change = became(&seen, &[], &seen).unwrap().unwrap();
            assert!(change.existing_rows.unwrap().contains(why));
        }
        // A computed column is in the catalog only, until it is one like any other.
        let all = [ID, NAME, PRICE];
        let now = [ID, NAME, PRICE, (4, "computed", oid::INT4, -1)];
        let known = became(&all, &[], &now).unwrap().expect("a column more is left out").schema;
        assert_eq!((&known.columns, &known.left_out), (&schema(&all).columns, &vec![4]));
        assert_eq!(reshape(&known, &shape(&all), &attributes(&[], &now), &TableRules::default()), Ok(None));
        let plain = [ID, NAME, PRICE, (4, "plain", oid::INT4, -1)];
        let change = reshape(&known, &shape(&plain), &attributes(&[], &plain), &TableRules::default())
            .unwrap()
            .expect("the shape is another");
        assert!(change.schema.left_out.is_empty());
        assert!(matches!(known.evolution(&change.schema), Evolution::ReadAgain(why) if why.contains("plain")));
        // Without numbers nothing can be told.
        let mut old = schema(&[ID, NAME, PRICE]);
        old.columns[1].id = 0;
        let seen = [ID, PRICE];
        assert_eq!(
            reshape(&old, &shape(&seen), &attributes(&[2], &seen), &TableRules::default()),
            Err("column name was dropped".to_owned())
        );
        assert!(reshape(&schema(&[ID, NAME]), &shape(&[ID]), &[], &TableRules::default()).is_err());
    }

    #[test]
    fn a_type_that_was_chosen_for_a_column_stays() {
        let (int, wide) = ((3, "price", oid::INT4, -1), (3, "price", oid::INT8, -1));
        // The catalog's columns come as the rules have them; that of a type in between does not come at all.
        for (had, has, now) in [(int, wide, wide), ((3, "price", oid::INT2, -1), int, wide)] {
            let mut before = schema(&[ID, NAME, had]);
            before.columns[2].ty = ColumnType::String;
            let mut catalog = attributes(&[], &[ID, NAME, now]);
            catalog[2].column.ty = ColumnType::String;
            let change = reshape(&before, &shape(&[ID, NAME, has]), &catalog, &TableRules::default())
                .unwrap()
                .expect("the shape is another");
            assert_eq!((change.existing_rows, &change.schema.columns[2].ty), (None, &ColumnType::String));
            assert_eq!(change.schema.columns[2].native.id, has.2);
        }
        let real = (3, "price", oid::FLOAT4, -1);
        let double = (3, "price", oid::FLOAT8, -1);
        for (ty, kept) in [(ColumnType::Double, true), (ColumnType::String, false)] {
            let mut before = schema(&[ID, NAME, real]);
            before.columns[2].ty = ty.clone();
            let mut catalog = attributes(&[], &[ID, NAME, double]);
            catalog[2].column.ty = ty;
            let change = reshape(&before, &shape(&[ID, NAME, double]), &catalog, &TableRules::default())
                .unwrap()
                .expect("the shape is another");
            assert_eq!(change.existing_rows.is_none(), kept, "{change:?}");
        }
    }

    #[test]
    fn some_changes_of_type_keep_every_value() {
        let numeric = |precision: i32, scale: i32| (oid::NUMERIC, (precision << 16 | scale) + 4);
        for (from, to, keeps) in [
            ((oid::INT2, -1), (oid::INT8, -1), true),
            ((oid::INT8, -1), (oid::INT4, -1), false),
            ((oid::VARCHAR, 14), (oid::VARCHAR, 24), true),
            ((oid::VARCHAR, 14), (oid::VARCHAR, 9), false),
            ((oid::VARCHAR, 14), (oid::TEXT, -1), true),
            ((oid::TEXT, -1), (oid::VARCHAR, 14), false),
            (numeric(10, 2), numeric(12, 2), true),
            (numeric(10, 2), numeric(12, 3), false),
            (numeric(12, 2), numeric(10, 2), false),
            ((oid::TIMESTAMP, 3), (oid::TIMESTAMP, -1), true),
            ((oid::TIMESTAMP, -1), (oid::TIMESTAMP, 3), false),
            ((oid::TIMESTAMP, -1), (oid::TIMESTAMPTZ, -1), false),
            ((oid::BPCHAR, 14), (oid::TEXT, -1), false),
            ((1007, -1), (1016, -1), true),
            ((1016, -1), (1007, -1), false),
            ((1015, 14), (1009, -1), true),
            ((oid::INT4, -1), (1007, -1), false),
        ] {
            assert_eq!(keeps_values(from, to), keeps, "{from:?} to {to:?}");
        }
        assert_eq!(column(&PRICE).ty, ColumnType::Decimal { precision: 10, scale: 2 });
    }
}
