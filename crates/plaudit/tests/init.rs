//! `plaudit init`: every config that it writes resolves where it lies. docs/start runs the commands of its
//! READMEs.

use crate::runs::{refused, succeeds};

#[test]
fn every_config_of_a_project_resolves() {
    let root = tempfile::tempdir().unwrap();
    let mut configs = 0;
    for kind in ["images", "lerobot", "gymnasium", "robot"] {
        let said = succeeds(root.path(), &["init", kind]);
        assert!(said.contains(&format!("cd {kind}")) && said.contains("plaudit "), "{said}");
        let folder = root.path().join(kind);
        for entry in std::fs::read_dir(&folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".yaml") {
                succeeds(&folder, &["config", "show", &name]);
                configs += 1;
            }
        }
        let said = refused(root.path(), &["init", kind], 2);
        assert!(said.contains("nothing is overwritten"), "{said}");
    }
    assert_eq!(configs, 6);
    let said = refused(root.path(), &["init", "drone"], 2);
    assert!(said.contains("images") && said.contains("gymnasium"), "{said}");
}
