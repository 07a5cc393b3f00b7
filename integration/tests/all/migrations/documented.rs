//! The README's table of schema changes is what the fixtures show: each of its rows has fixtures, and each fixture is of a row, or of what
//! the table does not speak of. So is its list of what nothing shows.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, ensure};
use calve_testkit::servers::Kind;

use super::expected::{Block, Outcome};
use super::fixture;

/// What a row says.
struct Documented {
    /// How its first cell begins.
    row: &'static str,
    /// Statements that do it have one of these words.
    words: &'static [&'static str],
    /// Its fixtures have a table that comes through so.
    shows: fn(&Block) -> bool,
    /// Names of fixtures of either directory, some of them in both.
    fixtures: &'static str,
}

fn goes_on(block: &Block) -> bool {
    block.outcome == Outcome::GoesOn
}

fn stops(block: &Block) -> bool {
    matches!(block.outcome, Outcome::Stops { .. } | Outcome::Gone { .. })
}

fn is_unnoticed(block: &Block) -> bool {
    matches!(block.outcome, Outcome::Unnoticed { .. })
}

fn keeps_what_was_dropped(block: &Block) -> bool {
    block.state.columns.iter().any(|column| column.dropped)
}

fn is_optional(block: &Block) -> bool {
    goes_on(block) && block.state.columns.iter().any(|column| !column.required)
}

const CHANGES: &[Documented] = &[
    Documented {
        row: "a column is added that is NULL in the rows that are there",
        words: &["add "],
        shows: is_optional,
        fixtures: "add_column add_and_drop drop_and_add_same_name add_column_filled_later algorithms as_statements_come
            commits_what_is_open enum_column_comes functional_index if_exists in_a_transaction inherited invisible_columns logged_in_two_phases rolled_back several_at_once
            toast_across_alter truncate_between types_of_mariadb wide_table",
    },
    Documented {
        row: "a column is dropped",
        words: &["drop "],
        shows: keeps_what_was_dropped,
        fixtures: "drop_column drop_last_then_add add_and_drop",
    },
    Documented {
        row: "a column is renamed",
        words: &["rename", "change"],
        shows: goes_on,
        fixtures: "rename_column case_only_rename odd_names key_by_another_name swap_names truncate_in_transaction",
    },
    Documented {
        row: "integer, float and decimal types grow",
        words: &["type", "modify"],
        shows: goes_on,
        fixtures: "widen_integers widen_numeric widen_decimal wider_step_by_step arrays widen_time booleans",
    },
    Documented {
        row: "text grows",
        words: &["type", "modify", "convert"],
        shows: goes_on,
        fixtures: "widen_text character_sets collations",
    },
    Documented {
        row: "NOT NULL is taken away",
        words: &["drop not null", "modify"],
        shows: is_optional,
        fixtures: "not_null not_null_set_and_dropped",
    },
    Documented { row: "another place among the columns", words: &["first", "after"], shows: goes_on, fixtures: "move_columns long_values" },
    Documented {
        row: "comments are written",
        words: &["comment"],
        shows: goes_on,
        fixtures: "remarks_and_storage defaults_comments_indexes",
    },
    Documented {
        row: "labels are added to an enum",
        words: &["add value", "enum("],
        shows: goes_on,
        fixtures: "enum_labels_added enum_labels enum_labels_nonstrict",
    },
    Documented {
        row: "labels are renamed",
        words: &["rename value", "enum("],
        shows: stops,
        fixtures: "enum_label_renamed enum_labels",
    },
    Documented {
        row: "a column is added with a default",
        words: &["alter", "rename", "drop", "create"],
        shows: stops,
        fixtures: "add_and_drop_at_once add_auto_increment add_column_default add_column_default_constant add_column_default_dropped
            add_column_default_volatile add_column_expression add_column_not_null add_identity change_type change_type_using default_taken_back
            domain_changed domain_over_enum_of_text drop_and_add_at_once enum_replaced expression_dropped generated_columns
            generated_invisible_key identity_nothing not_null_lenient identity_other_index key_becomes_auto_increment key_column_replaced key_dropped key_gets_column key_loses_column
            key_reordered narrow partition_dropped partition_with_rows rename_and_back rename_twice stopped_and_altered_again system_versioning
            table_dropped table_made_anew table_renamed table_renamed_and_back table_swapped table_swapped_old_kept timestamps_added types_of_mysql
            unique_over_text unsigned widen_key zero_dates",
    },
];

/// What goes on since rows stay as they are, or is said elsewhere in the README.
const OTHERS: &str = "add_generated_column composite_attribute default_changed expression_unnoticed foreign_keys identity_changed
    key_becomes_identity partitions refused temporary_of_same_name toast_default_identity unique_index_swapped virtual_generated_column";

/// Fixtures of which nothing is noticed, and what the README's list calls it.
const UNNOTICED: &[(&str, &str)] = &[
    ("expression_unnoticed", "a `USING` expression that leaves the type as it was or widens it"),
    ("composite_attribute", "an attribute added to a composite type"),
    ("default_taken_back", "a default that gave every row a value of its own and was dropped before"),
];

fn readme() -> anyhow::Result<String> {
    Ok(std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md"))?)
}

/// First cells of the table.
fn rows() -> anyhow::Result<Vec<String>> {
    let readme = readme()?;
    let lines = readme.lines().skip_while(|line| *line != "| change on the source | in the lake |");
    let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|line| Ok(line.split('|').nth(1).context("no cells")?.trim().to_owned())).collect()
}

#[test]
fn the_readme_s_table_is_what_the_fixtures_show() -> anyhow::Result<()> {
    let rows = rows()?;
    for row in &rows {
        let said = CHANGES.iter().filter(|change| row.starts_with(change.row)).count();
        ensure!(said == 1, "no fixtures are said to be of the README's row \"{row}\"");
    }
    ensure!(rows.len() == CHANGES.len(), "the README has {} rows, and fixtures are of {}", rows.len(), CHANGES.len());

    let mut fixtures = fixture::all(Kind::Postgres)?;
    fixtures.extend(fixture::all(Kind::MySql)?);
    let mut named: BTreeSet<&str> = OTHERS.split_whitespace().collect();
    for change in CHANGES {
        for name in change.fixtures.split_whitespace() {
            named.insert(name);
            let of_name: Vec<_> = fixtures.iter().filter(|fixture| fixture.name == name).collect();
            ensure!(!of_name.is_empty(), "there is no fixture {name}");
            let said = |sql: &str| change.words.iter().any(|word| sql.to_lowercase().contains(word));
            let does = of_name
                .iter()
                .any(|fixture| fixture.script.changes.iter().flatten().any(|statement| said(&statement.sql)));
            ensure!(does, "no statement of {name} does what the README's row \"{}..\" says", change.row);
            let shown = of_name.iter().any(|fixture| fixture.blocks.iter().any(change.shows));
            ensure!(shown, "what is expected of {name} is not what the README's row \"{}..\" says", change.row);
        }
    }
    let unnamed: Vec<&str> =
        fixtures.iter().map(|fixture| fixture.name.as_str()).filter(|name| !named.contains(name)).collect();
    ensure!(unnamed.is_empty(), "fixtures that are said to be of no row of the README's table: {unnamed:?}");
    let absent: Vec<&&str> =
        named.iter().filter(|name| !fixtures.iter().any(|fixture| fixture.name == ***name)).collect();
    ensure!(absent.is_empty(), "there are no such fixtures: {absent:?}");
    Ok(())
}

#[test]
fn the_readme_lists_all_that_nothing_shows() -> anyhow::Result<()> {
    let readme = readme()?.split_whitespace().collect::<Vec<_>>().join(" ");
    let list = readme.split_once("**Neither log nor catalog shows** ").and_then(|(_, rest)| rest.split_once(':'));
    let (list, advice) = list.context("the README has no list of what neither log nor catalog shows")?;
    ensure!(advice.starts_with(" run `calve reload`"), "the list does not say what to do");
    for item in list.split(", ") {
        let said = UNNOTICED.iter().any(|(_, words)| item.contains(words));
        ensure!(said, "no fixture is said to show \"{item}\" of the README's list");
    }
    let mut fixtures = fixture::all(Kind::Postgres)?;
    fixtures.extend(fixture::all(Kind::MySql)?);
    let shown = fixtures.iter().filter(|fixture| fixture.blocks.iter().any(is_unnoticed));
    let shown: BTreeSet<&str> = shown.map(|fixture| fixture.name.as_str()).collect();
    for name in &shown {
        let said = UNNOTICED.iter().find(|(fixture, _)| fixture == name);
        let (_, words) = said.with_context(|| format!("it is not said what of the README's list {name} is"))?;
        ensure!(list.contains(words), "{name}: \"{words}\" is not in the README's list: {list}");
    }
    let noticed: Vec<&str> = UNNOTICED.iter().map(|(name, _)| *name).filter(|name| !shown.contains(name)).collect();
    ensure!(noticed.is_empty(), "fixtures of which all is noticed: {noticed:?}");
    Ok(())
}
