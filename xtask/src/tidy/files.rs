//! Files are not too long, do not have vague names, and contain no absolute path of the machine they were written on.

use super::{Finding, Tree};

const LINES_MAX: usize = 500;
const SOURCE: [&str; 8] = ["rs", "sql", "ts", "tsx", "js", "css", "sh", "py"];
const NAMES_OF_NOTHING: [&str; 5] = ["utils", "common", "helpers", "types", "manager"];
/// Split, so that this file does not match itself.
const MACHINE_PATHS: [&str; 3] = [concat!("/", "work/"), concat!("/", "home/"), concat!("/", "root/")];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in &tree.0 {
        if is_source(path) {
            findings.extend(name_of_nothing(path));
            findings.extend(too_long(path, text));
        }
        findings.extend(machine_paths(path, text));
    }
    findings
}

fn is_source(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, extension)| SOURCE.contains(&extension))
}

fn name_of_nothing(path: &str) -> Option<Finding> {
    let name = path.split('/').map(|part| part.split('.').next().unwrap_or(part));
    let name = name.into_iter().find(|name| NAMES_OF_NOTHING.contains(name))?;
    Some(Finding::new(path, 0, format!("`{name}` is too vague; name it after what it does")))
}

fn too_long(path: &str, text: &str) -> Option<Finding> {
    let is_test = path.ends_with("_tests.rs")
        || path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches"));
    let lines = lines_before_tests(text);
    let what = format!("{lines} lines without tests, at most {LINES_MAX}; what second idea moved in?");
    (!is_test && lines > LINES_MAX).then(|| Finding::new(path, 0, what))
}

/// Lines up to the inline test module, which is at the end by convention.
fn lines_before_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let opens_tests = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ");
    lines.windows(2).position(opens_tests).unwrap_or(lines.len())
}

fn machine_paths(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(found) = MACHINE_PATHS.into_iter().find(|folder| names_folder(line, folder)) {
            let what = format!("names a path of one machine ({found}...); make it relative or configurable");
            findings.push(Finding::new(path, number + 1, what));
        }
    }
    findings
}

/// Whether the folder occurs as an absolute path, and not in the middle of a longer path or a URL.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}' | '*'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_source_file_is_found_and_its_tests_do_not_count() {
        let code = "let x = 1;\n".repeat(LINES_MAX);
        let tested = format!("{code}#[cfg(test)]\nmod tests {{\n{code}}}\n");
        assert_eq!(check(&Tree::of(&[("src/a.rs", &tested)])), []);
        let long = format!("{code}one more\n");
        assert_eq!(check(&Tree::of(&[("src/a.rs", &long)])).len(), 1);
        assert_eq!(
            check(&Tree::of(&[("tests/a.rs", &long), ("src/a_tests.rs", &long), ("notes.txt", &long)])),
            []
        );
    }

    #[test]
    fn a_vague_name_is_found_as_file_and_as_folder() {
        let tree = Tree::of(&[("src/utils.rs", ""), ("tests/common/mod.rs", ""), ("src/uncommon.rs", "")]);
        let paths: Vec<String> = check(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, ["src/utils.rs", "tests/common/mod.rs"]);
    }

    #[test]
    fn a_path_of_a_machine_is_found_and_an_address_is_not() {
        for folder in MACHINE_PATHS {
            assert_eq!(machine_paths("a", &format!("ok\nsee {folder}me")).len(), 1);
            assert_eq!(machine_paths("a", &format!("{folder}me")).len(), 1);
            assert_eq!(machine_paths("a", &format!("https://example.org{folder}me ${{X}}{folder}")), []);
        }
    }
}
