//! The main thread as a stage of a pipeline.
use convoy_analysis::counters::analyze;
use convoy_analysis::Params;
use convoy_model::FindingId;
use convoy_model::Model;
use convoy_testkit::{ms, ProfileBuilder};

/// The main thread works for the whole second; another one waits for it a hundred times, and works for so long in all.
fn is_a_stage(helps: u64) -> bool {
    is_a_stage_beside("chain", "log", helps)
}

/// The same of this program, and a thread of this name.
fn is_a_stage_beside(program: &str, thread: &str, helps: u64) -> bool {
    let mut b = ProfileBuilder::new(program);
    b.cpus(2).wall(ms(1000));
    b.raw().threads[0].cpu_ns = ms(1000);
    let (put, get) = (b.site("put", "c.c", 9), b.site("get", "c.c", 20));
    let items = b.cond("items");
    let helper = b.thread(thread).start("log", "c.c", 18);
    let helper = helper.lives(0, ms(1000)).cpu(helps).id();
    b.cond_waits(helper, items, get, 100, ms(1000) - helps)
        .woken_by(0, put);
    let analysis = analyze(&Model::build(b.build()), &Params::default());
    let mut all = analysis.findings.iter().chain(&analysis.dismissed);
    all.any(|f| f.id == FindingId::SlowStage)
}

/// A chain of hashes with a logger looks like a pipeline whose first stage could be doubled, but for what the others do.
#[test]
fn the_main_thread_with_a_helper_is_no_stage() {
    assert!(is_a_stage(ms(200)));
    assert!(!is_a_stage(ms(10)));
}

#[test]
fn a_virtual_machines_own_threads_are_no_stage() {
    assert!(is_a_stage_beside("java", "writer", ms(200)));
    assert!(!is_a_stage_beside("java", "C2 CompilerThre", ms(200)));
    assert!(is_a_stage_beside("chain", "C2 CompilerThre", ms(200)));
}
