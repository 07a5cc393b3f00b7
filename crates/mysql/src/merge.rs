//! Tables that become one in the lake, such as the shards of a table: which tables these are, and what the one looks like.
//!
//! The merged table begins with a column that says where a row comes from, which leads its key; then come the columns of all members,
//! by name. A column that a member does not have is NULL in its rows, and a column has the widest of its members' types. What a member
//! looks like at a place of the log the merged schema says itself ([`MemberShape`]), and so does the stamp.

mod change;
mod found;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use calve_core::{Column, ColumnType, ColumnUse, MemberShape, Members, NativeType, TableMode, TableName, TableSchema};

use crate::binlog::Flavour;
use crate::binlog::plan::{Mismatch, RowPlan};
use crate::binlog::table_map::TableMap;
use crate::types::choice;

pub(crate) use change::{altered, joined};
pub(crate) use found::{describe, findings, members, of_members};

/// Of a table what its rows have as their origin.
type OriginOf = Arc<dyn Fn(&TableName) -> Option<String> + Send + Sync>;

/// Tables that become one.
#[derive(Clone)]
pub struct Merge {
    /// What it is called.
    pub table: TableName,
    /// Its column that says where a row comes from.
    pub origin: String,
    /// The pattern that its members match, as it was written.
    pub pattern: String,
    origin_of: OriginOf,
    /// Columns that are passed over.
    without: Vec<String>,
}

impl Merge {
    /// `origin_of` says of a table what the rows that come from it have in the column `origin`, for each something else; None where the
    /// table is no member.
    pub fn new(
        table: TableName,
        origin: impl Into<String>,
        pattern: impl Into<String>,
        origin_of: impl Fn(&TableName) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let (origin, pattern) = (origin.into(), pattern.into());
        Self { table, origin, pattern, origin_of: Arc::new(origin_of), without: Vec::new() }
    }

    /// Where rows of the table come from; None where it is no member. Copies that tools build of members are none.
    pub(crate) fn origin_of(&self, table: &TableName) -> Option<String> {
        if is_left_by_tools(&table.name) { None } else { (self.origin_of)(table) }
    }

    /// What the column of the origin is said to be: rows of one pattern's origins are not rows of another's.
    pub(crate) fn native_origin(&self) -> String {
        format!("the origin by {}", self.pattern)
    }
}

impl fmt::Debug for Merge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} into {} by {}", self.pattern, self.table, self.origin)
    }
}

/// All merges of a pipeline. No table is a member of two.
#[derive(Clone, Debug, Default)]
pub struct Merges(Arc<[Merge]>);

impl Merges {
    /// These.
    pub fn new(merges: impl IntoIterator<Item = Merge>) -> Self {
        Self(merges.into_iter().collect())
    }

    /// Each of them.
    pub(crate) fn all(&self) -> &[Merge] {
        &self.0
    }

    /// The merge that makes this table; None where it is one of the source.
    pub(crate) fn of(&self, table: &TableName) -> Option<&Merge> {
        self.0.iter().find(|merge| merge.table == *table)
    }

    /// The merge that this table of the source is a member of.
    pub(crate) fn containing(&self, table: &TableName) -> Option<&Merge> {
        self.0.iter().find(|merge| merge.origin_of(table).is_some())
    }

    /// The same, where these columns of a merged table are passed over.
    pub(crate) fn without(&self, table: &TableName, columns: &[String]) -> Self {
        let mut merges = self.0.to_vec();
        for merge in merges.iter_mut().filter(|merge| merge.table == *table) {
            merge.without = columns.to_vec();
        }
        Self(merges.into())
    }
}

/// Whether gh-ost or pt-online-schema-change calls tables so, while they work and after.
fn is_left_by_tools(name: &str) -> bool {
    let inside = name.strip_prefix('_').unwrap_or_default();
    let of = ["_gho", "_ghc", "_del", "_new", "_old"].iter().find_map(|suffix| inside.strip_suffix(suffix));
    of.is_some_and(|name| !name.is_empty())
}

/// Names of columns are compared without case, as the servers do.
fn same(a: &str, b: &str) -> bool {
    a == b || a.to_lowercase() == b.to_lowercase()
}

fn named<'a>(columns: &'a [Column], name: &str) -> Option<&'a Column> {
    columns.iter().find(|column| same(&column.name, name))
}

/// A merged table without members.
pub(crate) fn empty(merge: &Merge, mode: TableMode) -> TableSchema {
    let origin = Column {
        id: 1,
        name: merge.origin.clone(),
        ty: ColumnType::String,
        nullable: false,
        native: NativeType::new(0, -1, merge.native_origin()),
        usage: ColumnUse::Values,
    };
    TableSchema { mode, ..TableSchema::new(merge.table.clone(), 0, vec![origin], vec![0]) }
}

/// The merged schema once a member looks like `after`. An error says what does not fit, in words that name member and column.
pub(crate) fn with_member(
    schema: &TableSchema,
    member: &TableName,
    mut after: MemberShape,
) -> Result<TableSchema, String> {
    let before = schema.member(member);
    let others = without_member(&schema.members, member);
    let elsewhere = |name: &str| others.iter().any(|alike| named(&alike.shape.columns, name).is_some());
    let goes_on = |name: &str| {
        let was = before.and_then(|before| named(&before.columns, name));
        was.zip(named(&after.columns, name)).is_some_and(|(was, is)| was.id == is.id)
    };
    let mut columns: Vec<Column> = Vec::with_capacity(schema.columns.len());
    for (at, column) in schema.columns.iter().enumerate() {
        if at == 0 || elsewhere(&column.name) || goes_on(&column.name) {
            columns.push(column.clone());
        }
    }
    let mut next_id = schema.columns.iter().map(|column| column.id).max().unwrap_or(0);
    let mut new = Vec::new();
    for own in &after.columns {
        if columns.first().is_some_and(|origin| same(&origin.name, &own.name)) {
            return Err(format!(
                "{member} has a column {}, which is what the column of the origin is called",
                own.name
            ));
        }
        let Some(merged) = columns.iter_mut().find(|column| same(&column.name, &own.name)) else {
            next_id = next_id.checked_add(1).ok_or("columns have no more numbers")?;
            columns.push(Column { id: next_id, nullable: own.nullable, ..own.clone() });
            new.push(own.name.clone());
            continue;
        };
        if !merged.usage.is_left_out() && merged.ty != own.ty {
            if !fits(own, &merged.ty) && !merged.ty.widens_to(&own.ty) {
                return Err(format!(
                    "column {} of {member} is {}, which is {} in the lake, where that of other members is {} ({})",
                    own.name, own.native.name, own.ty, merged.native.name, merged.ty
                ));
            }
            if merged.ty.widens_to(&own.ty) {
                (merged.ty, merged.native) = (own.ty.clone(), own.native.clone());
            }
        }
    }
    after.lost = lost_of(before, &after, &columns, &new);
    let mut members = others;
    for alike in &mut members {
        alike.shape.lost.retain(|name| named(&columns, name).is_some() && !new.iter().any(|new| same(new, name)));
    }
    members = grouped(members, member, after);
    let key = key_of(schema, member, &members, &columns)?;
    for (at, column) in columns.iter_mut().enumerate().filter(|(at, _)| !key.contains(at)) {
        let own = |alike: &Members| named(&alike.shape.columns, &column.name).is_none_or(|own| own.nullable);
        column.nullable |= at > 0 && members.iter().any(own);
    }
    let next = TableSchema { members, columns, key, ..schema.clone() };
    agree(&next)?;
    Ok(next)
}

/// What is left once a member is another, or none.
fn without_member(all: &[Members], member: &TableName) -> Vec<Members> {
    let rest = all.iter().map(|alike| {
        let tables = alike.tables.iter().filter(|table| *table != member).cloned().collect();
        Members { tables, shape: alike.shape.clone() }
    });
    rest.filter(|alike| !alike.tables.is_empty()).collect()
}

/// Members that are alike stand together.
fn grouped(all: Vec<Members>, member: &TableName, shape: MemberShape) -> Vec<Members> {
    let mut grouped: Vec<Members> = Vec::with_capacity(all.len() + 1);
    for alike in all.into_iter().chain([Members { tables: vec![member.clone()], shape }]) {
        match grouped.iter_mut().find(|other| other.shape == alike.shape) {
            Some(other) => {
                other.tables.extend(alike.tables);
                other.tables.sort();
            }
            None => grouped.push(alike),
        }
    }
    grouped
}

/// Columns that the member has no longer and others have: what its rows had in them is still in the lake.
fn lost_of(before: Option<&MemberShape>, after: &MemberShape, columns: &[Column], new: &[String]) -> Vec<String> {
    let Some(before) = before else { return Vec::new() };
    let gone = before.columns.iter().map(|column| &column.name).filter(|name| named(&after.columns, name).is_none());
    let mut lost: Vec<String> = Vec::new();
    for name in before.lost.iter().chain(gone) {
        let stands = columns.iter().skip(1).find(|column| same(&column.name, name));
        if let Some(column) = stands.filter(|column| !new.contains(&column.name) && !lost.contains(&column.name)) {
            lost.push(column.name.clone());
        }
    }
    lost
}

/// The merged key: the origin, then the key that all members have.
fn key_of(
    schema: &TableSchema,
    member: &TableName,
    members: &[Members],
    columns: &[Column],
) -> Result<Vec<usize>, String> {
    let names = |shape: &MemberShape| -> Vec<String> {
        shape.key.iter().filter_map(|&at| shape.columns.get(at)).map(|column| column.name.clone()).collect()
    };
    let of =
        |table: &TableName| members.iter().find(|alike| alike.tables.contains(table)).map(|alike| names(&alike.shape));
    let own = of(member).unwrap_or_default();
    if own.is_empty() {
        return Err(format!("{member} has no primary key, so nothing tells its rows apart"));
    }
    let of_all: Vec<String> = if schema.is_merged() {
        schema.key_columns().skip(1).map(|column| column.name.clone()).collect()
    } else {
        own.clone()
    };
    if own.len() != of_all.len() || !own.iter().zip(&of_all).all(|(a, b)| same(a, b)) {
        return Err(format!(
            "the primary key of {member} is ({}), and that of other members ({})",
            own.join(", "),
            of_all.join(", ")
        ));
    }
    let place = |name: &String| columns.iter().position(|column| same(&column.name, name));
    let places: Option<Vec<usize>> = of_all.iter().map(place).collect();
    let places = places.ok_or_else(|| format!("{member} lacks a column of the key"))?;
    Ok(std::iter::once(0).chain(places).collect())
}

/// Whether cells of the member's column can be read as values of the type.
fn fits(own: &Column, ty: &ColumnType) -> bool {
    own.ty == *ty || own.ty.widens_to(ty) && choice(&own.ty, &own.native).allows(ty)
}

/// Every member's columns can be read as what they are in the merged table.
fn agree(schema: &TableSchema) -> Result<(), String> {
    for alike in &schema.members {
        for own in &alike.shape.columns {
            let Some(merged) = named(&schema.columns, &own.name) else { continue };
            if !merged.usage.is_left_out() && !fits(own, &merged.ty) {
                let member = alike.tables.first().map(ToString::to_string).unwrap_or_default();
                return Err(format!(
                    "column {} of {member} is {}, which cannot be {} in the lake as that of other members",
                    own.name, own.native.name, merged.ty
                ));
            }
        }
    }
    Ok(())
}

/// A member as its rows are read.
pub(crate) struct AsMember {
    /// Its own columns, of the types that they have in the merged table.
    pub(crate) schema: Arc<TableSchema>,
    /// For each the place in the merged table.
    pub(crate) places: Vec<usize>,
    /// Columns of the merged table that it does not have, without those that are left out.
    pub(crate) absent: Vec<usize>,
}

impl AsMember {
    /// None where the table is no member of the merged one.
    pub(crate) fn of(merged: &TableSchema, member: &TableName) -> Option<Self> {
        let shape = merged.member(member)?;
        let mut own = own_schema(merged, member, shape);
        let mut places = Vec::with_capacity(own.columns.len());
        for column in &mut own.columns {
            let place = merged.columns.iter().position(|merged| same(&merged.name, &column.name))?;
            let is = merged.columns.get(place)?;
            (column.ty, column.nullable, column.usage) = (is.ty.clone(), is.nullable, is.usage.clone());
            places.push(place);
        }
        let all = merged.columns.iter().enumerate().skip(1);
        let absent = all.filter(|(at, column)| !places.contains(at) && !column.usage.is_left_out());
        let absent = absent.map(|(at, _)| at).collect();
        Some(Self { schema: Arc::new(own), places, absent })
    }
}

/// A member as a table by itself.
pub(crate) fn own_schema(merged: &TableSchema, member: &TableName, shape: &MemberShape) -> TableSchema {
    TableSchema {
        character_set: shape.character_set.clone(),
        mode: merged.mode,
        ..TableSchema::new(member.clone(), 0, shape.columns.clone(), shape.key.clone())
    }
}

/// How rows of a member become rows of the merged table.
pub(crate) fn plan(
    flavour: Flavour,
    map: &TableMap<'_>,
    merged: &Arc<TableSchema>,
    member: &TableName,
    origin: &str,
) -> Result<RowPlan, Mismatch> {
    let Some(own) = AsMember::of(merged, member) else {
        return Err(Mismatch { what: format!("{member} is none of its members") });
    };
    let has_text = own.schema.columns.iter().any(|column| column.native.character_set.is_some());
    let guessed = has_text && merged.member(member).is_some_and(|shape| shape.guessed_character_set);
    if guessed && map.optional.collation.iter().all(Option::is_none) {
        let what = "the statement that made it names no character set for its texts, and its rows in the log name none; \
                    SET GLOBAL binlog_row_metadata = MINIMAL has them do so, or name it in CREATE TABLE";
        return Err(Mismatch { what: what.to_owned() });
    }
    let plan = RowPlan::new(flavour, map, &own.schema)?;
    Ok(plan.merged(merged, &own.places, own.absent, origin))
}
