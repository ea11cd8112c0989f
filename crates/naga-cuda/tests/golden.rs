//! Every construct's translation as a golden file, and all of them through NVRTC.

mod support;

use naga_cuda::Options;

#[test]
fn translations_are_as_recorded() {
    for (name, source) in support::sources() {
        let translation = support::translate(&source);
        let body = support::body(&translation);
        insta::assert_snapshot!(name, format!("{body}\n{:#?}\n", translation.entry_points));
    }
}

#[test]
fn nvrtc_compiles_every_translation() {
    if !support::nvrtc_is_there() {
        return;
    }
    for (_, source) in support::sources() {
        let options = Options {
            zero_initialize_workgroup_memory: true,
            ..Options::default()
        };
        let zeroed = support::translate_with(&source, &options).expect("a translation");
        for text in [support::translate(&source).source, zeroed.source] {
            for architecture in ["sm_80", "sm_90"] {
                support::compile(&text, architecture);
            }
        }
    }
}
