//! A table's schema after an ALTER TABLE, by the rules of the servers (`mysql_prepare_alter_table` in `sql_table.cc`): columns are
//! dropped, renamed and redefined in the order they have, then added and moved in the order of the statement.

use std::collections::BTreeSet;
use std::sync::Arc;

use calve_core::{Column, ColumnSelection, ColumnType, ColumnUse, NativeType, SchemaChange, TableRules, TableSchema};

use super::change::{Alteration, TableChange};
use super::conversion;
use super::definition::{Default, Definition, Place};
use super::written_type::WrittenType;
use crate::conversions::Conversions;
use crate::server::Flavour;
use crate::types::{self, attribute};

/// Where an ALTER TABLE ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session<'a> {
    pub(crate) flavour: Flavour,
    /// As the pipeline's [`Conversions`] have it.
    pub(crate) tinyint1_as_boolean: bool,
    /// The pipeline's for the table; None: it has none.
    pub(crate) rules: Option<&'a TableRules>,
    /// A value that does not fit makes the statement fail.
    pub(crate) strict: bool,
    /// The table is an empty copy of this one, which is still to be filled.
    pub(crate) copy_of: Option<&'a TableSchema>,
}

/// A column of the table to be.
#[derive(Clone)]
struct Draft<'a> {
    id: u32,
    name: &'a str,
    /// What it was.
    before: Option<&'a Column>,
    /// What it is said to be; None: as it was.
    definition: Option<&'a Definition>,
}

impl Alteration {
    /// The change of the schema; None where nothing changes. An error says what in the statement cannot be judged, in words that
    /// follow "it is not known what it does: ".
    pub(crate) fn apply(&self, schema: &TableSchema, session: Session<'_>) -> Result<Option<SchemaChange>, String> {
        if let Some(column) = schema.columns.iter().find(|column| column.id == 0 && !self.changes.is_empty()) {
            return Err(format!("column {} has no number, as the table was read by an older version", column.name));
        }
        let table = Table { alteration: self, schema, session };
        table.check_names()?;
        let drafts = table.place(table.kept())?;
        let key = table.key(&drafts)?;
        let next = table.build(&drafts, &key)?;
        let existing_rows = table.existing_rows(&drafts, &next);
        if existing_rows.is_none() && next == *schema {
            return Ok(None);
        }
        Ok(Some(SchemaChange { schema: Arc::new(next), existing_rows }))
    }
}

/// Names of columns are compared without case. What the servers hold for equal beyond that is not found here, and stops.
pub(super) fn same(a: &str, b: &str) -> bool {
    a == b || a.to_lowercase() == b.to_lowercase()
}

struct Table<'a> {
    alteration: &'a Alteration,
    schema: &'a TableSchema,
    session: Session<'a>,
}

impl<'a> Table<'a> {
    fn changes(&self) -> impl Iterator<Item = &'a TableChange> + use<'a> {
        self.alteration.changes.iter()
    }

    fn column(&self, name: &str) -> Option<&'a Column> {
        self.schema.columns.iter().find(|column| same(&column.name, name))
    }

    /// Every column that is changed is there, and changed once.
    fn check_names(&self) -> Result<(), String> {
        let mut changed = BTreeSet::new();
        for change in self.changes() {
            let (name, optional) = match change {
                TableChange::Drop { column, if_exists } | TableChange::Define { column, if_exists, .. } => {
                    (column, *if_exists)
                }
                TableChange::Rename { from, if_exists, .. } => (from, *if_exists),
                TableChange::Other(words) => return Err(words.clone()),
                _ => continue,
            };
            match self.column(name) {
                Some(column) if !changed.insert(column.id) => return Err(format!("column {name} is changed twice")),
                None if !optional => return Err(format!("column {name} is none of those that are replicated")),
                _ => {}
            }
        }
        Ok(())
    }

    /// What becomes of the columns that are there, before any is moved.
    fn kept(&self) -> Vec<Draft<'a>> {
        let mut drafts = Vec::new();
        for column in &self.schema.columns {
            let mut draft = Draft { id: column.id, name: &column.name, before: Some(column), definition: None };
            let mut stays = true;
            for change in self.changes() {
                match change {
                    TableChange::Drop { column: name, .. } if same(name, &column.name) => stays = false,
                    TableChange::Rename { from, to, .. } if same(from, &column.name) => draft.name = to,
                    TableChange::Define { column: name, definition, .. } if same(name, &column.name) => {
                        (draft.name, draft.definition) = (&definition.name, Some(definition));
                    }
                    _ => {}
                }
            }
            if stays {
                drafts.push(draft);
            }
        }
        drafts
    }

    /// Puts in what is added or moved.
    fn place(&self, mut drafts: Vec<Draft<'a>>) -> Result<Vec<Draft<'a>>, String> {
        let original = self.session.copy_of.into_iter().flat_map(|schema| &schema.columns);
        let mut next_id = self.schema.columns.iter().chain(original).map(|column| column.id).max().unwrap_or(0);
        for change in self.changes() {
            let (draft, place) = match change {
                TableChange::Add { definition, if_not_exists, .. }
                    if *if_not_exists && self.is_there(&drafts, &definition.name) =>
                {
                    continue;
                }
                TableChange::Add { definition, place, .. } => {
                    next_id = next_id.checked_add(1).ok_or("columns have no more numbers")?;
                    let name = &definition.name;
                    (Draft { id: next_id, name, before: None, definition: Some(definition) }, place.as_ref())
                }
                TableChange::Define { column, definition, place: Some(place), .. } => {
                    let Some(before) = self.column(column) else { continue };
                    let (id, name) = (before.id, definition.name.as_str());
                    drafts.retain(|draft| draft.id != id);
                    (Draft { id, name, before: Some(before), definition: Some(definition) }, Some(place))
                }
                _ => continue,
            };
            let at = match place {
                None => drafts.len(),
                Some(Place::First) => 0,
                Some(Place::After(name)) => {
                    let after = drafts.iter().position(|draft| same(draft.name, name));
                    after.ok_or_else(|| format!("column {name} is none of those that are replicated"))? + 1
                }
            };
            drafts.insert(at, draft);
        }
        for (at, draft) in drafts.iter().enumerate() {
            if drafts.iter().skip(at + 1).any(|other| same(other.name, draft.name)) {
                return Err(format!("column {} is there already", draft.name));
            }
        }
        Ok(drafts)
    }

    /// Whether a column of the name was there, or came by an earlier change of the statement.
    fn is_there(&self, drafts: &[Draft<'_>], name: &str) -> bool {
        self.column(name).is_some() || drafts.iter().any(|draft| same(draft.name, name))
    }

    /// The numbers of the key's columns.
    fn key(&self, drafts: &[Draft<'_>]) -> Result<Vec<u32>, String> {
        let mut key: Vec<u32> = self.schema.key_columns().map(|column| column.id).collect();
        if self.changes().any(|change| *change == TableChange::DropKey) {
            key.clear();
        }
        key.retain(|id| drafts.iter().any(|draft| draft.id == *id));
        let id_of = |name: &String| {
            let found = drafts.iter().find(|draft| same(draft.name, name)).map(|draft| draft.id);
            found.ok_or_else(|| format!("key column {name} is none of those that are replicated"))
        };
        let named = self.changes().filter_map(|change| match change {
            TableChange::AddKey(names) => Some(names.iter().map(id_of).collect::<Result<Vec<u32>, String>>()),
            _ => None,
        });
        let own = drafts.iter().filter(|draft| draft.definition.is_some_and(|definition| definition.primary));
        for added in named.chain(own.map(|draft| Ok(vec![draft.id]))) {
            if !key.is_empty() {
                return Err("there is a primary key already".to_owned());
            }
            key = added?;
        }
        // A log goes on without one where it had none; where it had one its rows tell of that.
        if key.is_empty() && !self.schema.key.is_empty() {
            return Err("it leaves the table without a primary key".to_owned());
        }
        Ok(key)
    }

    fn build(&self, drafts: &[Draft<'_>], key: &[u32]) -> Result<TableSchema, String> {
        let mut character_set = self.schema.character_set.clone();
        let mut converts_to = None;
        for change in self.changes() {
            if let TableChange::ConvertTo(name) | TableChange::DefaultCharacterSet(name) = change {
                character_set = Some(name.clone());
            }
            if let TableChange::ConvertTo(name) = change {
                converts_to = Some(name.as_str());
            }
        }
        if converts_to.is_some() && drafts.iter().any(|draft| draft.definition.is_some()) {
            return Err("columns are defined and converted to a character set at once".to_owned());
        }
        let mut columns = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let in_key = key.contains(&draft.id);
            // Under another name another rule may hold; the lake goes on with what it has of a column under its own, and of the key.
            let usage = match draft.before {
                Some(before) if in_key || before.name == draft.name => before.usage.clone(),
                Some(before) => self.rules().usage_of_renamed(&before.usage, draft.name),
                None => self.rules().usage_of_added(draft.name),
            };
            let column = match (draft.definition, draft.before, converts_to) {
                (Some(definition), before, _) => {
                    self.defined(definition, before, &usage, character_set.as_deref(), in_key)?
                }
                (None, Some(before), Some(name)) if before.native.character_set.is_some() => {
                    self.converted(before, name, in_key)?
                }
                (None, Some(before), _) => before.clone(),
                (None, None, _) => return Err(format!("column {} comes from nowhere", draft.name)),
            };
            let nullable = column.nullable || self.rules().may_become_null(draft.name, in_key);
            let ty = if matches!(usage, ColumnUse::Masked(_)) { ColumnType::String } else { column.ty };
            columns.push(Column { id: draft.id, name: draft.name.to_owned(), ty, nullable, usage, ..column });
        }
        let place = |id: &u32| drafts.iter().position(|draft| draft.id == *id);
        let key = key.iter().filter_map(place).collect();
        if self.alteration.unique {
            types::say_unique(&mut columns);
        }
        // A copy that is built of the table is not altered with it.
        Ok(TableSchema { character_set, columns, key, shadow: None, ..self.schema.clone() })
    }

    fn conversions(&self) -> Conversions {
        Conversions { tinyint1_as_boolean: self.session.tinyint1_as_boolean, ..Conversions::default() }
    }

    fn rules(&self) -> TableRules {
        self.session.rules.cloned().unwrap_or_default()
    }

    fn defined(
        &self,
        definition: &Definition,
        before: Option<&Column>,
        usage: &ColumnUse,
        table: Option<&str>,
        in_key: bool,
    ) -> Result<Column, String> {
        let flavour = self.session.flavour;
        let catalog = definition.ty.in_catalog(flavour, table)?;
        let not_null = in_key || definition.nullable == Some(false);
        let attributes = [
            (attribute::NOT_NULL, not_null),
            (attribute::AUTO_INCREMENT, definition.auto_increment),
            (attribute::GENERATED, definition.generated),
            (attribute::UNIQUE, before.is_some_and(|before| has(&before.native, attribute::UNIQUE))),
        ];
        let attributes: Vec<&str> = attributes.iter().filter(|(_, is_so)| *is_so).map(|(name, _)| *name).collect();
        let mut rules = self.rules();
        if usage.is_left_out() {
            rules.selection = ColumnSelection::Only(Vec::new());
        }
        types::column(flavour, &self.conversions(), &rules, &definition.name, &catalog, &attributes, in_key)
            .map_err(|unsupported| format!("column {} {unsupported}", definition.name))
    }

    /// A text column that gets another character set, and a larger type where all of its characters would no longer fit.
    fn converted(&self, before: &Column, character_set: &str, in_key: bool) -> Result<Column, String> {
        let not_known = || format!("column {} of type {} in another character set", before.name, before.native.name);
        let catalog = WrittenType::converted(&before.native, character_set)
            .and_then(|ty| ty.in_catalog(self.session.flavour, None).ok())
            .ok_or_else(not_known)?;
        let attributes: Vec<&str> = before.native.attributes.iter().map(String::as_str).collect();
        let (flavour, rules) = (self.session.flavour, self.rules());
        types::column(flavour, &self.conversions(), &rules, &before.name, &catalog, &attributes, in_key)
            .map_err(|_| not_known())
    }

    /// What the statement did to rows that were there.
    fn existing_rows(&self, drafts: &[Draft<'_>], next: &TableSchema) -> Option<String> {
        let strict = self.session.strict && !self.alteration.ignore;
        let kept = drafts.iter().zip(&next.columns).filter(|(_, column)| !column.usage.is_left_out());
        let mut kept = kept.filter(|(draft, _)| draft.before.is_none_or(|before| !before.usage.is_left_out()));
        let was_added = |before: &Column| {
            self.session.copy_of.is_some_and(|original| original.columns.iter().all(|column| column.id != before.id))
        };
        kept.find_map(|(draft, column)| match (draft.before, draft.definition) {
            (None, Some(definition)) => added(definition, column),
            (Some(before), Some(definition)) if was_added(before) => added(definition, column),
            (Some(before), Some(definition)) => redefined(before, definition, column, strict),
            (Some(before), None) => conversion::loss(before, column, strict),
            (None, None) => None,
        })
    }
}

/// What rows that were there have in a new column other than NULL.
fn added(definition: &Definition, column: &Column) -> Option<String> {
    let what = if definition.generated {
        "is computed for rows that were there"
    } else if definition.auto_increment {
        "numbers rows that were there"
    } else if definition.default == Some(Default::Value) {
        "was added with a default, which rows that were there have"
    } else if has(&column.native, attribute::NOT_NULL) {
        "was added as NOT NULL, and rows that were there have a value in it"
    } else if depends_on_session(definition, column) {
        "was added as a TIMESTAMP without NULL, and rows that were there may have the time of the change in it"
    } else {
        return None;
    };
    Some(format!("column \"{}\" {what}", column.name))
}

/// What a new definition of a column did to values that were there.
fn redefined(before: &Column, definition: &Definition, column: &Column, strict: bool) -> Option<String> {
    let was = |name: &str| has(&before.native, name);
    let is_timestamp = column.native.name.starts_with("timestamp");
    let forbids_null = has(&column.native, attribute::NOT_NULL) || depends_on_session(definition, column);
    let what = if definition.generated || (was(attribute::GENERATED) && before.native.name != column.native.name) {
        "is computed anew"
    } else if definition.auto_increment && !was(attribute::AUTO_INCREMENT) {
        "became AUTO_INCREMENT, which gives rows with 0 in it a number"
    } else if forbids_null && !was(attribute::NOT_NULL) && (!strict || is_timestamp) {
        "became NOT NULL, and rows with NULL in it got a value"
    } else {
        return conversion::loss(before, column, strict);
    };
    Some(format!("column \"{}\" {what}", column.name))
}

/// Where `explicit_defaults_for_timestamp` is off, a TIMESTAMP that is not said to be NULL is NOT NULL, with defaults of its own.
fn depends_on_session(definition: &Definition, column: &Column) -> bool {
    definition.nullable.is_none() && column.native.name.starts_with("timestamp")
}

pub(super) fn has(native: &NativeType, attribute: &str) -> bool {
    native.attributes.iter().any(|own| own == attribute)
}
