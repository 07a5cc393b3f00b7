//! Killed in between, local state lost, stale or foreign, two at once: the tables say where to go on.

use std::path::Path;

use calve_integration::binary;

use crate::case::{Case, complains};

const TWO: &str = "
    create table a (id int primary key, v text, n int default 0); create table b (id int primary key, v text);
    insert into a select i, 'a' from generate_series(1, 50) i; insert into b select i, 'b' from generate_series(1, 50) i;";
const TABLES: [&str; 2] = ["public.a", "public.b"];
/// Every kind of change, so that a replay of it that is not skipped shows.
const CHANGES: &str = "
    insert into a (id, v) select max(id) + 1, 'new' from a; insert into b select max(id) + 1, 'new' from b;
    update a set n = n + 1 where id between 10 and 20; delete from a where id = (select min(id) from a);
    update b set id = (select max(id) + 1 from b) where id = (select min(id) from b);";

/// Dies at a place, restarts without and with local state: the replay changes nothing.
fn killed_at(case: &mut Case, place: &str, forget: bool) -> anyhow::Result<()> {
    case.sql.run(CHANGES)?;
    case.pipeline.dies_at(place, &["run"])?;
    if forget {
        remove(&case.lake().positions(case.pipeline.name()))?;
    }
    case.once_and_same(&TABLES)
}

fn remove(directory: &Path) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

#[test]
fn killed_between_any_two_steps_it_heals_by_itself() -> anyhow::Result<()> {
    let mut case = Case::new("between", TWO, &TABLES)?;
    case.once_and_same(&TABLES)?;
    for place in [
        "writer.write.after",
        "positions.put_intent.before",
        "positions.intent-written",
        "lake.commit.before",
        "commit.metadata-written",
        "commit.swapped",
        "lake.commit.after",
        "lake.commit.after:2",
        "positions.advance.before",
        "positions.advanced",
        "source.acknowledge.before",
        "source.acknowledge.after",
    ] {
        for forget in [false, true] {
            killed_at(&mut case, place, forget)?;
        }
    }
    case.pass()
}

#[test]
fn local_state_of_yesterday_changes_nothing() -> anyhow::Result<()> {
    let mut case = Case::new("yesterday", TWO, &TABLES)?;
    case.once_and_same(&TABLES)?;
    case.sql.run(CHANGES)?;
    // A copy with an intent in it that is done by the time it comes back.
    let mut command = case.pipeline.command(&["run"])?;
    command.env("CALVE_FAILPOINT", "positions.intent-written");
    binary::finish(command, &case.pipeline.log("killed"))?;
    let positions = case.lake().positions(case.pipeline.name());
    let copy = case.directory.path().join("yesterday");
    copy_directory(&positions, &copy)?;
    for _ in 0..3 {
        case.once_and_same(&TABLES)?;
        case.sql.run(CHANGES)?;
    }
    remove(&positions)?;
    copy_directory(&copy, &positions)?;
    case.once_and_same(&TABLES)?;
    case.pass()
}

fn copy_directory(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[test]
fn local_state_lost_damaged_or_of_another_pipeline() -> anyhow::Result<()> {
    let mut case = Case::new("state", TWO, &TABLES)?;
    case.once_and_same(&TABLES)?;
    let positions = case.lake().positions(case.pipeline.name());

    case.sql.run(CHANGES)?;
    remove(&positions)?;
    case.once_and_same(&TABLES)?;

    for (what, length) in [("cut short", 10), ("emptied", 0)] {
        case.sql.run(CHANGES)?;
        for file in files_below(&positions)? {
            std::fs::OpenOptions::new().write(true).open(&file)?.set_len(length)?;
        }
        case.once_and_same(&TABLES).map_err(|error| error.context(what))?;
    }
    case.sql.run(CHANGES)?;
    for file in files_below(&positions)? {
        let length = std::fs::metadata(&file)?.len();
        std::fs::write(&file, vec![0xA5; usize::try_from(length)?])?;
    }
    case.once_and_same(&TABLES)?;

    // Another pipeline's: refused, and nothing is changed by it.
    let mut other = Case::new("state_other", TWO, &TABLES)?;
    other.once_and_same(&TABLES)?;
    case.sql.run(CHANGES)?;
    remove(&positions)?;
    copy_directory(&other.lake().positions(other.pipeline.name()), &positions)?;
    complains(&case.pipeline.finish(&["run", "--once"])?, 2, &[other.pipeline.name(), case.pipeline.name()])?;
    remove(&positions)?;
    case.once_and_same(&TABLES)?;
    other.pass()?;
    case.pass()
}

fn files_below(directory: &Path) -> anyhow::Result<Vec<std::path::PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() { files.extend(files_below(&path)?) } else { files.push(path) }
    }
    Ok(files)
}

#[test]
fn a_second_process_on_the_same_lake_is_refused() -> anyhow::Result<()> {
    let mut case = Case::new("second", TWO, &TABLES)?;
    let calve = case.pipeline.start()?;
    case.await_same(&TABLES)?;
    complains(
        &case.pipeline.finish(&["run"])?,
        4,
        &["already running", case.pipeline.name(), &calve.id().to_string()],
    )?;
    complains(&case.pipeline.finish(&["drop", "--yes"])?, 4, &["already running"])?;
    case.sql.run(CHANGES)?;
    case.await_same(&TABLES)?;
    calve.terminate()?;
    case.pass()
}

/// The same pipeline from two machines: one catalog and warehouse, two directories of local state, so no lock is shared.
#[test]
fn a_second_process_elsewhere_is_fenced() -> anyhow::Result<()> {
    let mut case = Case::new("elsewhere", TWO, &TABLES)?;
    let shared = case.directory.path().join("shared");
    std::fs::create_dir_all(&shared)?;
    let common = format!("catalog: sqlite://{0}/catalog.db\nwarehouse: {0}/warehouse", shared.display());
    let here = case.pipeline.clone().with(&common);
    let there = here.clone().lake_at(&case.directory.path().join("there"));
    let lake = calve_integration::lake::Lake::new(&shared);
    let same = |case: &mut Case| calve_integration::compare::await_same(&mut case.sql, &lake, &TABLES);

    let mut first = here.start()?;
    same(&mut case)?;
    let mut second = there.start()?;
    for round in 0..6 {
        for _ in 0..5 {
            case.sql.run(CHANGES)?;
        }
        match round % 3 {
            0 => {
                first.kill()?;
                first = here.start()?;
            }
            1 => {
                second.kill()?;
                second = there.start()?;
            }
            _ => std::thread::sleep(std::time::Duration::from_millis(300)),
        }
    }
    same(&mut case)?;
    // Whichever waits for the slot may leave instead, saying who else is there.
    for process in [first, second] {
        process.kill()?;
    }
    case.sql.run(CHANGES)?;
    here.once()?;
    calve_integration::compare::assert_same(&mut case.sql, &lake, &TABLES)?;
    case.sql.run(CHANGES)?;
    there.once()?;
    calve_integration::compare::assert_same(&mut case.sql, &lake, &TABLES)?;
    case.pass()
}
