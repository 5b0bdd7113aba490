//! `plaudit reward train` on several ranks, as a person starts and stops it.

use std::path::Path;
use std::process::Output;
use std::sync::Arc;

use crate::runs::{command, curve, on_one_line, plaudit};
use plaudit_core::Seed;
use plaudit_pyfiles::{self as pyfiles, Array, PyValue, Storages};

const SIDE: usize = 16;

/// The smallest network, eight steps of four micro batches.
const SMALL: [&str; 12] = [
    "reward",
    "train",
    "reward_training",
    "data.train_data_paths=train.pt",
    "data.val_data_paths=val.pt",
    "actor.model.arch=resnet10",
    "actor.model.image_size=[3,32,32]",
    "actor.micro_batch_size=2",
    "actor.global_batch_size=8",
    "runner.val_check_interval=4",
    "runner.save_interval=4",
    "runner.max_steps=8",
];

/// Noise, with a bright bar on the left for success and on the right for failure; every third is a success.
fn write_pt(path: &Path, count: usize) {
    let image = |number: usize| {
        let mut rng = Seed::new(4).index(number as u64).rng();
        let mut pixels: Vec<u8> = (0..SIDE * SIDE * 3).map(|_| rng.below(90) as u8).collect();
        let left = if number.is_multiple_of(3) { 1 } else { 10 };
        (5..10).for_each(|row| pixels[(row * SIDE + left) * 3..][..15].fill(240));
        PyValue::Tensor(Arc::new(Array::from_slice(&[SIDE, SIDE, 3], &pixels).unwrap()))
    };
    let label = |number: usize| PyValue::Int(number.is_multiple_of(3).into());
    let data = PyValue::dict([
        ("images", PyValue::list((0..count).map(image))),
        ("labels", PyValue::list((0..count).map(label))),
    ]);
    pyfiles::write_pt(path, &data, Storages::Shared).unwrap();
}

fn dataset() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_pt(&folder.path().join("train.pt"), 40);
    write_pt(&folder.path().join("val.pt"), 11);
    folder
}

fn train(folder: &Path, words: &[&str]) -> Output {
    plaudit(folder, &[&SMALL[..], words].concat())
}

fn trained(folder: &Path, words: &[&str]) -> String {
    let output = train(folder, words);
    let said = on_one_line(&output.stderr);
    assert!(output.status.success(), "{said}");
    said
}

fn refusal(output: &Output) -> String {
    let said = on_one_line(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

fn state(run: &Path, step: u64) -> Vec<u8> {
    std::fs::read(run.join(format!("checkpoints/global_step_{step}/actor/trainer.safetensors"))).unwrap()
}

#[test]
fn any_number_of_ranks_leaves_the_same_run() {
    let folder = dataset();
    let here = folder.path();
    trained(here, &["runner.logger.log_path=one"]);
    let said = trained(
        here,
        &["runner.logger.log_path=four", "--ranks", "4", "actor.fsdp_config.sharding_strategy=shard_grad_op"],
    );
    assert!(said.contains("4 ranks (threads), the optimiser's state divided among them"), "{said}");
    assert!(state(&here.join("one"), 8) == state(&here.join("four"), 8), "bit-exact");
    assert_eq!(curve(&here.join("one")), curve(&here.join("four")));
    let log = std::fs::read_to_string(here.join("four/ranks/rank_3.log")).unwrap();
    let timed = |line: &str| line.contains("step 8: ") && line.contains("time/step_secs");
    assert!(log.contains("rank 3 of 4") && log.lines().any(timed), "{log}");
    // It goes on with another number of ranks.
    let resume = ["runner.resume_dir=four", "runner.max_steps=12", "--ranks", "2"];
    trained(here, &resume);
    trained(here, &["runner.resume_dir=one", "runner.max_steps=12"]);
    assert!(state(&here.join("one"), 12) == state(&here.join("four"), 12), "bit-exact");
    assert_eq!(curve(&here.join("one")), curve(&here.join("four")));
}

#[test]
fn ranks_that_cannot_work_are_refused_by_name() {
    let folder = dataset();
    let here = folder.path();
    let cases: [(&[&str], &[&str]); 4] = [
        (&["--ranks", "3"], &["3 ranks cannot share the 4 micro batches", "actor.global_batch_size"]),
        (&["--ranks", "8"], &["8 ranks cannot share", "set actor.micro_batch_size=1"]),
        (
            &["--ranks", "2", "actor.fsdp_config.sharding_strategy=full_shard"],
            &["actor.sharding_strategy", "`full_shard` divides the weights", "shard_grad_op"],
        ),
        (&["--ranks", "0"], &["--ranks"]),
    ];
    for (words, says) in cases {
        let said = refusal(&train(here, words));
        says.iter().for_each(|words| assert!(said.contains(words), "`{words}` is not in: {said}"));
    }
    assert!(!here.join("logs").exists(), "nothing was begun");
    trained(here, &["runner.max_steps=1", "actor.fsdp_config.sharding_strategy=full_shard"]);
}

/// Without MPI each process would train alone, on the same data, in silence.
#[test]
#[cfg(not(feature = "mpi"))]
fn processes_of_mpirun_need_a_program_with_mpi() {
    let folder = dataset();
    for (variable, starts) in
        [("OMPI_COMM_WORLD_SIZE", "mpirun"), ("PMI_SIZE", "mpirun"), ("SLURM_STEP_NUM_TASKS", "srun")]
    {
        let output = command(folder.path(), &SMALL).env(variable, "2").output().unwrap();
        let said = refusal(&output);
        assert!(said.contains(&format!("{starts} started 2 processes")), "{said}");
        assert!(said.contains("--features mpi") && said.contains("--ranks"), "{said}");
    }
    // A script of Slurm that runs once is no rank.
    let words = [&SMALL[..], &["runner.max_steps=1"]].concat();
    let once = command(folder.path(), &words).env("SLURM_NTASKS", "4").output().unwrap();
    assert!(once.status.success(), "{}", on_one_line(&once.stderr));
}

#[test]
#[cfg(not(feature = "nccl"))]
fn nccl_needs_a_program_with_nccl() {
    let folder = dataset();
    let said = refusal(&train(folder.path(), &["--ranks", "2", "--nccl"]));
    assert!(said.contains("built without NCCL") && said.contains("--features nccl"), "{said}");
}
