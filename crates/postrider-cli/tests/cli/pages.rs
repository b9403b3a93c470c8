//! The generated pages of the docs are up to date.

use std::fs;
use std::path::Path;

use postrider_cli::config::schema::Schema;
use postrider_cli::pages;

use crate::program::Program;

#[test]
fn generated_pages_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src");
    let renew = std::env::var_os("UPDATE_DOCS").is_some();
    for (name, text) in [
        ("config.md", pages::config(Schema::postrider())),
        ("cli.md", pages::cli()),
        ("doctor.md", pages::doctor()),
        ("errors.md", pages::errors()),
        ("exit-codes.md", pages::exit_codes()),
        ("metrics.md", pages::metrics()),
    ] {
        let path = folder.join(name);
        if renew {
            fs::write(&path, &text).unwrap();
        }
        let page = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            page == text,
            "docs/src/{name} is outdated: UPDATE_DOCS=1 cargo test -p postrider-cli --all-features --test cli pages"
        );
    }
}

#[test]
fn the_program_prints_the_same_page() {
    let ran = Program::new().run(&["config", "schema", "--markdown"]);
    assert_eq!(ran.stdout, pages::config(Schema::postrider()));
}

#[test]
fn the_quick_start_shows_what_the_first_commands_print() {
    let page = include_str!("../../../../docs/src/quick-start.md");
    let program = Program::new();
    let printed: String = [&["config", "init"][..], &["migrate", "up"]]
        .into_iter()
        .map(|args| program.run(args))
        .flat_map(|ran| [ran.stdout, ran.stderr])
        .collect();
    let block: String = printed.lines().map(|line| format!("   {line}\n")).collect();
    assert!(page.contains(&format!("```text\n{block}")), "docs/src/quick-start.md does not show:\n{printed}");
}
