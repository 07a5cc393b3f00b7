//! Passwords and rows are nobody's business: not in logs, errors, `status`, local state or process titles.

use std::path::Path;

use anyhow::ensure;
use calve_integration::binary;

use crate::case::Case;

const PASSWORD: &str = "pa55-Wort!Xq";
const SECRET_ROW: &str = "row-value-Zk7";

fn search(directory: &Path, needle: &str, found: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            search(&path, needle, found)?;
        } else if path.is_file() {
            let bytes = std::fs::read(&path)?;
            if bytes.windows(needle.len()).any(|window| window == needle.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    Ok(())
}

#[test]
fn passwords_come_from_everywhere_and_appear_nowhere() -> anyhow::Result<()> {
    let schema = format!("create table t (id int primary key, v text); insert into t values (1, '{SECRET_ROW}')");
    let mut case = Case::new("secrets", &schema, &["public.t"])?;
    let role = format!("s_{}", case.database.name());
    case.database.psql(&format!(
        "create role {role} login replication password '{PASSWORD}' in role calve; grant create on database {} to {role}",
        case.database.name()
    ))?;
    let url = case.database.url(&role)?.replace(&format!("{role}:{role}@"), &format!("{role}@"));
    let pipeline = case.pipeline.clone().source(&url).with("").variable("CALVE_LOG", "trace");

    // The environment, a file of passwords, the configuration with a variable in it.
    pipeline.clone().variable("PGPASSWORD", PASSWORD).once()?;
    case.sql.run(&format!("insert into t values (2, '{SECRET_ROW}')"))?;
    let file = case.directory.path().join("outside").join("pgpass");
    let outside = calve_integration::directory::Directory::new("pgpass")?;
    let file = outside.path().join(file.file_name().unwrap_or_default());
    std::fs::write(&file, format!("*:*:*:{role}:{PASSWORD}\n"))?;
    set_private(&file)?;
    pipeline.clone().variable("PGPASSFILE", &file.to_string_lossy()).once()?;
    case.sql.run(&format!("update t set v = v || '{SECRET_ROW}'"))?;
    let with_password = url.replace(&format!("{role}@"), &format!("{role}:${{SECRET}}@"));
    let interpolated = pipeline.clone().source(&with_password).variable("SECRET", PASSWORD);
    let calve = interpolated.start()?;
    case.await_same(&["public.t"])?;
    let title = std::fs::read_to_string(format!("/proc/{}/cmdline", calve.id())).unwrap_or_default();
    ensure!(!title.contains(PASSWORD), "{title}");
    interpolated.finish(&["status"])?.expect_success()?;
    interpolated.finish(&["status", "--json"])?.expect_success()?;
    interpolated.finish(&["verify"])?.expect_success()?;
    calve.terminate()?;
    // Wrong now: the refusal must not repeat it.
    case.database.psql(&format!("alter role {role} password 'another'"))?;
    interpolated.finish(&["run", "--once"])?.expect_code(2)?;
    // On the command line it is the user's own doing, but it is stored nowhere.
    case.database.psql(&format!("alter role {role} password '{PASSWORD}'"))?;
    let mut flags = binary::command(["run", "--once", "--name", case.pipeline.name(), "--table", "public.t"])?;
    flags.args(["--source", &with_password.replace("${SECRET}", PASSWORD), "--into"]).arg(case.lake().path());
    binary::finish(flags, &case.pipeline.log("flags"))?.expect_success()?;

    let mut found = Vec::new();
    search(case.directory.path(), PASSWORD, &mut found)?;
    ensure!(found.is_empty(), "the password stands in {found:?}");
    let mut found = Vec::new();
    search(case.directory.path(), SECRET_ROW, &mut found)?;
    found.retain(|path| !path.contains("/warehouse/"));
    ensure!(found.is_empty(), "a row's value stands in {found:?}");
    pipeline.variable("PGPASSWORD", PASSWORD).finish(&["drop", "--yes"])?.expect_success()?;
    case.database.psql(&format!("reassign owned by {role} to calve; drop owned by {role}; drop role {role}"))?;
    case.pass()
}

fn set_private(file: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600))?)
}
