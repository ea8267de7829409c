//! Which texts there are, and the types of their arguments. The languages have the words.

use std::fmt::Display;

/// Declares a part of the catalogue. A text without arguments is a `&'static str`; one with
/// arguments is a function of the same name.
macro_rules! texts {
    ($(#[$meta:meta])* $part:ident {
        $($name:ident $(($($argument:ident: $type:ty),*))?;)*
    }) => {
        $(#[$meta])*
        #[allow(missing_docs, reason = "the English text says what each is")]
        #[derive(Debug)]
        pub struct $part {
            $(pub $name: text_type!($($($type),*)?),)*
        }

        #[allow(missing_docs, reason = "the English text says what each is")]
        impl $part {
            $($(
                pub fn $name(&self, $($argument: $type),*) -> String {
                    (self.$name)($($argument),*)
                }
            )?)*

            /// Each text with its name and the nth sample of each argument.
            pub(super) fn samples(&self, nth: usize) -> Vec<(&'static str, String)> {
                vec![$((stringify!($name), text_sample!(self, nth, $name $(($($type),*))?)),)*]
            }
        }
    };
}

macro_rules! text_type {
    () => { &'static str };
    ($($type:ty),+) => { fn($($type),+) -> String };
}

macro_rules! text_sample {
    ($self:ident, $nth:ident, $name:ident) => {{
        let _ = $nth;
        $self.$name.to_owned()
    }};
    ($self:ident, $nth:ident, $name:ident ($($type:ty),*)) => {
        $self.$name($(<$type as Sample>::sample($nth)),*)
    };
}

/// Values for the arguments of a text, to show it where nobody gave any.
trait Sample {
    fn sample(nth: usize) -> Self;
}

impl Sample for &str {
    fn sample(nth: usize) -> Self {
        ["alpha", "beta"][nth % 2]
    }
}

impl Sample for &[String] {
    fn sample(nth: usize) -> Self {
        static SAMPLES: std::sync::LazyLock<[Vec<String>; 2]> = std::sync::LazyLock::new(|| {
            [
                vec!["gamma".into(), "delta".into()],
                vec!["epsilon".into(), "zeta".into()],
            ]
        });
        &SAMPLES[nth % 2]
    }
}

impl Sample for &dyn Display {
    fn sample(nth: usize) -> Self {
        [&"eta", &"theta"][nth % 2]
    }
}

macro_rules! sample_numbers {
    ($($type:ty),*) => {$(
        impl Sample for $type {
            fn sample(nth: usize) -> Self {
                [2 as $type, 3 as $type][nth % 2]
            }
        }
    )*};
}

sample_numbers!(u32, u64, usize, i64, f64);

/// Names in backticks.
pub(super) fn quoted(names: &[String], between: &str) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(between)
}

/// All that the host says in one language.
#[derive(Debug)]
pub struct Texts {
    /// Outcomes of cells, for models and people.
    pub outcome: OutcomeTexts,
    /// Prompts and messages for models.
    pub prompts: PromptTexts,
    /// Words by which replies of models are read.
    pub replies: ReplyMarks,
    /// Runs and approvals at a terminal.
    pub run: RunTexts,
    /// Sessions at a terminal: `exec`, `repl` and what all commands share.
    pub session: SessionTexts,
    /// Sessions as Jupyter kernels.
    pub kernel: KernelTexts,
    /// Settings, and MCP servers that they name.
    pub settings: SettingsTexts,
    /// What each setting is, for a new settings file.
    pub setting: SettingTexts,
    /// The example tasks of demo mode.
    pub demo: DemoTexts,
    /// Tools that no run has unless it is asked for: they are not part of the measured prompts.
    pub tools: ToolTexts,
    /// The checks of `belljar doctor`.
    pub doctor: DoctorTexts,
    /// `belljar env`.
    pub env: EnvTexts,
    /// `belljar keys` and `belljar tenants`.
    pub service: ServiceTexts,
    /// References of `belljar bench`.
    pub bench: BenchTexts,
    /// Errors of sessions and environments, as a person sees them. The English texts are those of the errors themselves.
    pub errors: ErrorTexts,
}

impl Texts {
    /// Each text with its full name and the nth sample of each argument, to compare languages.
    pub fn samples(&self, nth: usize) -> Vec<(String, String)> {
        let parts = [
            ("outcome", self.outcome.samples(nth)),
            ("prompts", self.prompts.samples(nth)),
            ("run", self.run.samples(nth)),
            ("session", self.session.samples(nth)),
            ("kernel", self.kernel.samples(nth)),
            ("settings", self.settings.samples(nth)),
            ("setting", self.setting.samples(nth)),
            ("demo", self.demo.samples(nth)),
            ("tools", self.tools.samples(nth)),
            ("doctor", self.doctor.samples(nth)),
            ("env", self.env.samples(nth)),
            ("service", self.service.samples(nth)),
            ("bench", self.bench.samples(nth)),
            ("errors", self.errors.samples(nth)),
        ];
        let named = parts.into_iter().flat_map(|(part, texts)| {
            let named = move |(name, text)| (format!("{part}.{name}"), text);
            texts.into_iter().map(named)
        });
        let replies = &self.replies;
        let marks = [
            ("replies.output", replies.output),
            ("replies.alternative", replies.alternative),
            ("replies.answer", replies.answer),
        ];
        let marks = marks.map(|(name, marks)| (name.to_owned(), marks.join(" ")));
        named.chain(marks).collect()
    }
}

/// Words by which replies of models are read, in lower case. All languages are tried.
#[derive(Debug)]
pub struct ReplyMarks {
    /// Before a colon: output of code follows.
    pub output: &'static [&'static str],
    /// In the line before code: it is an alternative.
    pub alternative: &'static [&'static str],
    /// Before a colon: the answer follows.
    pub answer: &'static [&'static str],
}

texts! {
    /// Outcomes of cells, for models and people.
    OutcomeTexts {
        headline_success;
        headline_failure;
        headline_timeout;
        headline_crashed;
        output;
        source;
        error;
        time_limit(seconds: &dyn Display);
        exit_code(code: i64);
        files;
        left_out;
        next;
        no_walls;
        no_output;
        failed;
        stopped(seconds: &dyn Display);
        missing_package(package: &str);
        exception;
        syntax;
        sys_exit(code: i64);
        exited(code: i64);
        exited_by_signal(code: i64, signal: &str);
        interrupted;
        wall_time(seconds: &dyn Display);
        cpu_time(seconds: &dyn Display);
        memory(mib: u64);
        signal(name: &str, meaning: &str);
        invalid_memory_access;
        abort;
        arithmetic_fault;
        illegal_instruction;
        killed;
        forbidden_system_call;
        output_limit(mib: u64);
        protocol(detail: &str);
        variables_kept;
        variables_before_first_cell;
        variables_after_cell(cell: u32);
        variables_lost;
    }
}

texts! {
    /// Prompts and messages for models.
    PromptTexts {
        system;
        installed(packages: &str);
        example_task;
        example_thought;
        task(task: &str);
        files;
        file_begins;
        parent(task: &str, steps: &str);
        parent_answer(answer: &str);
        output_of_cell(cell: u32);
        result_of_tool(tool: &str);

        native_instructions;
        json_instructions;
        tags_instructions;
        fenced_instructions;
        json_tools;
        tags_tools;
        fenced_tools;
        native_form;
        forms(forms: &str);

        reply_empty;
        reply_truncated;
        reply_without_action(near: &str);
        reply_json(expected: &str, near: &str);
        reply_without(field: &str);
        action_without(action: &str, field: &str);
        unknown_action(given: &str, known: &[String]);
        unknown_tool(given: &str, known: &[String]);
        answer_too_early;

        undefined_name(name: &str, line: usize);
        undefined_names(names: &str);
        answer_without_code;
        answer_after_failure;
        review(task: &str);
        answer_unseen(values: &str, task: &str);
        answer_doubted(doubts: &str, task: &str);
        doubt_nothing_run;
        doubt_last_call_failed;
        doubt_unseen(value: &str);
        doubt_written_in_code(value: &str);
        doubt_file_missing(file: &str);
        doubt_data_not_read;
        doubt_name_omitted;
        doubt_number_omitted;
        doubt_no_total;
        doubt_no_average;
        doubt_no_median;
        doubt_not_distinct;
        doubt_not_largest;
        doubt_not_smallest;
        doubt_column_missing(column: &str);
        doubt_column_exists(column: &str);
        doubt_ignored(term: &str);
        doubt_not_converted(from: &str, to: &str);
        done_before(step: u32);
        failed_before(step: u32);
        keeps_failing(steps: usize, more: &str);
        skip_in_plan;
        repetition(variables: &str, repeated: &str);
        failed_again(error: &str, variables: &str);
        showed_nothing(variables: &str);
        variables_restored;
        variables_current;
        earlier_steps;
        hidden_steps(steps: usize);
        your_plan;
        session_variables;
        last_step;
        steps_left(steps: u32);
        budget_nearly_used;
        bytes_left_out(bytes: usize);
        all_in_file(file: &str);

        host_restarted;
        cell_differs;
        calls_made;
        call_not_done;
        call_unknown;
        call_done;
        more_calls(calls: usize);
        cell_edited(code: &str);
        cell_feedback(text: &str);
        cell_rejected;
        cell_held_back;
        cell_given_up;
        call_rejected;
        call_feedback(text: &str);
        calls_used_up(most: u32);
        call_lost;
        names_not_kept(names: &[String]);
        session_new;
        session_run_again(cells: usize);
        session_not_run_again(held: &str);
        session_loaded;
        session_loaded_without(names: &[String]);
        session_lost(held: &str);

        wrong_calls;
        wrong_call_line(line: usize);
        no_tools(tool: &str);
        no_such_tool(tool: &str, known: &str);
        no_parameter(name: &str);
        too_many_arguments(given: usize);
        two_values(name: &str);
        missing_arguments(names: &str);
        call_form(signature: &str);
        wrong_calls_again;

        branches(tool: &str, most: u32, check: &str);
        branch_count(most: u32, given: usize);
        branch_stopped(milliseconds: u64);
        branch_memory;
        branch_output;
        branch_signal(name: &str);
        branch_exit(code: i64);
        branch_unfinished;
        check_false;
        check_failed(why: &str);
        none_accepted;
        not_forked(why: &str, tool: &str);
        no_calls_in_branch;

        tool_purpose;
        tools_module;
        tools_colon;
        tools_calling;
        tools_more(tools: usize);
        tools_help;
        python_tool;
        python_code;
        answer_tool;
        answer_text;
        compute_tool;
        compute_code;
        compute_about;
        compute_taken_away(tool: &str, errors: u32, calls: u32);
        read_file_tool;
        read_file_path;
        read_file_encoding;
        read_file_size;

        plan_tool;
        plan_changes;
        plan_checklist;
        plan_statistics;
        plan_ready;
        plan_counts(total: usize, counts: &[String], percent: usize);
        plan_none_ready;
        plan_names_ready(names: &[String]);
        plan_made;
        plan_added(names: &[String]);
        plan_removed(names: &[String]);
        plan_status(changes: &[String]);
        plan_status_change(name: &str, from: &str, to: &str);
        plan_moved(changes: &[String]);
        plan_move(name: &str, from: &str, to: &str);
        plan_root;
        plan_unchanged;
        plan_task(name: &str, id: &str);
        plan_task_status(status: &str);
        plan_task_about(text: &str);
        plan_task_result(text: &str);
        task_pending;
        task_processing;
        task_completed;
        task_failed;
        task_retry;
        task_skipped;
    }
}

texts! {
    /// Runs and approvals at a terminal.
    RunTexts {
        model_writing;
        running;
        retrying(why: &str, seconds: f64);
        output_truncated;
        image(media_type: &str, bytes: u64);
        step(step: u32, seconds: f64, tokens: u64);
        rolled_back;
        more_calls;
        accepted;
        approved;
        approved_rest;
        edited;
        not_approved;
        not_approved_because(why: &str);
        more_thought(lines: usize);
        plan(goal: &str);
        cost(money: f64);
        totals(steps: u32, tokens: u64);
        total_time(totals: &str, seconds: f64);
        answer;
        answer_unverified;
        last_output;
        files(names: &str, directory: &dyn Display);
        not_kept(path: &str, why: &str);
        more_not_kept(files: u64);
        not_answered(why: &str);
        unverified(doubt: &str);
        computed_in_cell(value: &str, cell: u32, expression: &str, how: &str);
        from_files(files: &str);
        printed_by_cell(value: &str, cell: u32, rounded: &str);
        result_of_step(value: &str, step: u32, rounded: &str);
        rounded;
        weak_other_row;
        weak_other_column;
        weak_other_measure;
        weak_other_unit;
        weak_outdated;
        weak_incidental;
        given_in_task(value: &str);
        file_of_run(value: &str);
        written_in_code(value: &str, cell: u32);
        seen_nowhere(value: &str);
        heading_answer;
        heading_unverified;
        heading_not_answered(why: &str);
        heading_last_output;
        heading_record;
        record_run;
        record_times;
        record_model;
        record_use;
        record_isolation;
        record_versions;
        record_installed;
        record_files;
        record_made;
        record_approvals;
        decision_open;
        decision_accepted;
        decision_accepted_rest;
        decision_edited;
        decision_rejected;
        decision_feedback(text: &str);
        signed_page(key: &str);
        signature_holds;
        signature_key(key: &str);
        signature_of_other_key(key: &str);
        reason_answered;
        reason_unverified;
        reason_model_failed;
        reason_not_understood;
        reason_repetition;
        reason_budget(part: &str);
        reason_stopped;
        ending;
        interrupted;
        waits(id: &str);

        approval(id: &str, question: &str);
        may_run;
        may_call(tool: &str);
        finding(capability: &dyn Display, what: &str, line: u32);
        cell_choices;
        call_choices;
        no_such_choice(typed: &str);
        feedback;
        edited_code;
        edited_choices;

        task_empty;
        check(error: &dyn Display);
        file_unreadable(path: &dyn Display, error: &dyn Display);
        file_not_regular(path: &dyn Display);
        file_name_invalid(path: &dyn Display);
        file_name_twice(path: &dyn Display);
        out_exists(path: &str, files: usize);
        out_too_many(files: usize);

        no_such_run(id: &str);
        ambiguous_run(id: &str, runs: usize);
        no_first_event;
        no_approval(id: &str);
        several_approvals(pending: usize, ids: &str);
        no_such_approval(approval: &str, id: &str);
        head_run;
        head_started;
        head_state;
        head_steps;
        head_cost;
        head_task;
        state_answered;
        state_unverified;
        state_ended;
        state_waits;
        state_running;
        state_interrupted;
        no_runs_yet(directory: &dyn Display);
        more_runs(id: &str);
        run_deleted(id: &str);
        run_driven(id: &str);

        replay_prompts_differ(recorded: &str, current: &str);
        replay_would(step: u32, what: &str);
        replay_call_tools;
        replay_roll_back;
        replay_end;
        replay_other;
        replay_differs(step: u32, byte: usize);
        replay_recorded(text: &str);
        replay_now(text: &str);
        replay_identical(requests: u32);
        reproducing;
        reproduced_so_far(done: usize, all: usize);
        head_value;
        head_verdict;
        head_where;
        head_now;
        in_cell(cell: u32);
        in_step(step: u32);
        in_file;
        verdict_identical;
        verdict_changed;
        verdict_not_deterministic;
        verdict_not_run;
        reproduced_part(identical: usize, all: usize, what: &str);
        reproduced_nothing;
        reproduced_values;
        reproduced_files;
        reproduced_cells;

        time_all;
        time_model;
        time_tools;
        time_other;
        cost_unknown;
        timing(steps: u32, calls: u32, rollbacks: u32, read: u64, written: u64, cost: &str);
        timing_head;
        failed_calls(calls: u32);
        slowest(steps: &str);
        repeated(steps: &str, seconds: f64, call: &str);
    }
}

texts! {
    /// Sessions at a terminal: `exec`, `repl` and what all commands share.
    SessionTexts {
        no_walls;
        allow_needs_walls;
        starting;
        installing;
        installed(packages: &str);
        package_by_library(package: &str);
        package_by_command(package: &str);
        package_by_service(package: &str);
        network_by_library(host: &str);
        network_by_command(host: &str);
        network_by_service(host: &str);
        network(denial: &dyn Display);
        rest_not_kept;
        long_output(path: &dyn Display);
        long_output_beginning(path: &dyn Display);
        file(path: &str, bytes: u64);
        not_saved(name: &str, why: &str);
        not_restored(name: &str, why: &str);
        file_not_saved(path: &str, why: &str);
        more_not_saved(names: usize);
        more_not_restored(names: usize);
        more_files_not_saved(files: usize);
        other_packages(packages: &str);
        image(path: &dyn Display);
        image_not_shown(error: &dyn Display);
        no_code;
        code_is_path(path: &str);
        ignores_interrupt;
        packages_unnamed;
        command_lost(why: &str);
        command_exit_code(code: i64);
        command_signal(signal: &str);
        output_lost(bytes: u64);
        secret_not_set(name: &str);
        secret_not_text(name: &str);
        no_agent(error: &str);
        no_runs(error: &str);

        welcome(version: &str, python: &str, environment: &str);
        keys;
        new_session;
        back;
        cannot_go_back;
        still_running;
        in_fork;
        lost_back;
        lost_new;
        loading;
        loaded(names: usize, files: usize);
        starting_session;
        history_not_saved(error: &dyn Display);

        help_help;
        help_vars;
        help_files;
        help_put;
        help_get;
        help_checkpoint;
        help_checkpoints;
        help_restore;
        help_fork;
        help_back;
        help_save;
        help_load;
        help_reset;
        help_quit;
        help_end;
        no_arguments(command: &str);
        usage(form: &str);
        checkpoint_number(name: &str);
        no_such_command(command: &str, commands: &str);
        unclosed_quote(quote: &dyn Display);
        no_variables;
        checkpoint_made(name: &str);
        no_checkpoints;
        restored;
        no_files;
        not_a_file;
        list_truncated;
        no_file_name(path: &dyn Display);
        cannot_read(path: &dyn Display);
        cannot_write(path: &dyn Display);
        not_regular(path: &dyn Display);
        too_large(path: &dyn Display, size: &str, limit: &str);
        not_a_file_name(name: &str);
        already_exists(path: &dyn Display);
        saved(path: &str, names: usize, files: usize, size: &str);
        head_size;
        head_path;
        head_cell;
        head_name;
        head_memory;
        head_type;
        head_shape;
        seed;
    }
}

texts! {
    /// Sessions as Jupyter kernels.
    KernelTexts {
        lost;
        files_of_session;
        files_hidden(path: &dyn Display);
        installed(name: &str, path: &dyn Display);
    }
}

texts! {
    /// Settings, and MCP servers that they name.
    SettingsTexts {
        file_exists(path: &dyn Display);
        file(path: &dyn Display);
        file_missing(path: &dyn Display);
        key_set;
        key_not_set;
        not_set;
        from_profile(name: &str);
        from_default;
        no_model;
        no_prices(model: &dyn Display, file: &dyn Display);
        incomplete_prices(model: &dyn Display, file: &dyn Display);
        home_invalid(name: &str);
        named_file;
        is_table(name: &str);
        no_such_setting(name: &str, nearest: &str, allowed: &str);
        wrong_value(name: &str, expected: &str);
        no_such_provider(name: &str, nearest: &str, providers: &str);
        nearest(name: &str);
        expected_text;
        expected_model;
        expected_path;
        expected_one_of(words: &str);
        expected_switch;
        expected_count;
        expected_amount;
        expected_words;
        expected_sources;
        expected_headers;
        template;

        no_servers(file: &dyn Display);
        no_such_server(name: &str, servers: &str);
        granted(tools: usize);
        read_only;
        idempotent;
        not_granted(tool: &str, why: &str);
        tool_withheld(server: &str, tool: &str, why: &str);
        accept_tools(server: &str);
    }
}

texts! {
    /// What each setting is, for a new settings file.
    SettingTexts {
        model;
        language;
        temperature;
        review;
        data_dir;
        runs_dir;
        budget_steps;
        budget_tokens;
        budget_money;
        budget_seconds;
        budget_calls;
        budget_cell_calls;
        approvals_policy;
        approvals_tool;
        approvals_capability;
        base_url;
        key_variable;
        key_file;
        allow_plain_http;
        dialect;
        context_window;
        max_tokens;
        price_input;
        price_output;
        price_cached_input;
        price_cache_write;
        mcp_command;
        mcp_env;
        mcp_url;
        mcp_headers;
        mcp_trusted;
        mcp_tools;
        mcp_direct;
        mcp_timeout;
    }
}

texts! {
    /// The example tasks of demo mode. `{name}` stands for a value that the code prints.
    DemoTexts {
        sales_title;
        sales_task;
        sales_look;
        sales_sum;
        sales_chart;
        sales_answer;
        repair_title;
        repair_task;
        repair_goal;
        repair_read;
        repair_add;
        repair_check;
        repair_numbers;
        repair_commas;
        repair_answer;
        approval_title;
        approval_task;
        approval_remove;
        approval_answer;
        crash_title;
        crash_task;
        crash_count;
        crash_now;
        crash_check;
        crash_answer;
        other_code;
        other_answer;
    }
}

texts! {
    /// The checks of `belljar doctor`.
    DoctorTexts {
        ok;
        missing;
        note;
        remedy(text: &str);
        kernel;
        user_namespaces;
        privileges;
        temporary_files;
        open_files;
        environments;
        session;
        no_python;
        install_python_and_uv;
        kernel_unknown(release: &str);
        check_kernel;
        kernel_old(release: &str);
        update_kernel;
        version(version: u32);
        landlock_missing;
        boot_with_landlock;
        landlock_old(version: u32, least: u32);
        landlock_no_truncate(version: u32);
        landlock_files(version: u32);
        newer_kernel_all;
        newer_kernel;
        seccomp_works;
        seccomp_missing;
        kernel_with_seccomp;
        namespaces_work;
        namespaces_refused(by: &str, error: &dyn Display);
        container_filter;
        namespaces_fail(error: &dyn Display);
        sysctl(setting: &str);
        apparmor_profile(profile: &str);
        for_all_programs(remedy: &str);
        or_as_root;
        in_container;
        as_root;
        as_user;
        as_user_remedy;
        cgroups_work(version: u32);
        cgroup_left(version: u32);
        boot_with_cgroup2(scope: &str);
        container_settings;
        not_writable(directory: &dyn Display, error: &dyn Display);
        set_tmpdir;
        space_unknown(directory: &dyn Display, error: &dyn Display);
        little_space(directory: &dyn Display, mib: u64);
        free_space;
        space(directory: &dyn Display, mib: u64);
        no_limit;
        files_limit(limit: u64, sessions: u64);
        raise_files_limit;
        uv_remedy;
        uv_missing;
        uv_exited(path: &dyn Display, status: &dyn Display);
        uv_not_started(path: &dyn Display, error: &dyn Display);
        uv_silent(path: &dyn Display);
        python_missing;
        python_remedy;
        environments_unreadable(error: &dyn Display);
        own_data_dir;
        environments_broken(usable: &str, error: &str);
        none;
        no_environments;
        create_environment;
        session_works(start: &str, python: &str, environment: &str, warm: &str);
        session_silent(seconds: u64);
        session_fails(why: &str, python: &str, environment: &str);
        gvisor_works(start: &str);
        gvisor_missing;
        install_gvisor;
        containers;
        containers_work;
        containers_remedy;
        fix_above;
        report_log;
    }
}

texts! {
    /// `belljar env`.
    EnvTexts {
        removed(name: &str);
        building(name: &str);
        seconds(seconds: f64, line: &str);
        ready(name: &str, seconds: f64, python: &str, packages: usize);
        warning(error: &dyn Display);
        none_yet;
        head_name;
        head_packages;
        head_preload;
        head_image;
        name;
        preload;
        fonts;
        visible;
        image;
        engine;
        local_docker;
        packages;
        none;
        requirements_unreadable(path: &dyn Display);
        requirements_unusable(path: &dyn Display);
        requirement_is_option(line: usize, text: &str);
        requirements_cut;
        step_waiting;
        step_venv;
        step_versions;
        step_installing;
        step_compiling;
        step_importing;
        step_no_font;
        step_writing;
    }
}

texts! {
    /// `belljar keys` and `belljar tenants`.
    ServiceTexts {
        similar_tenant(name: &dyn Display, other: &dyn Display);
        new_tenant(name: &dyn Display);
        no_such_tenant(name: &dyn Display);
        key_once;
        no_such_key(prefix: &str);
        no_data(directory: &dyn Display);
        revoked(time: &str);
        valid;
        expired;
        head_key;
        head_tenant;
        head_scopes;
        head_created;
        head_expires;
        head_used;
        head_state;
        head_quotas;
        head_quota;
        head_limit;
        head_used_today;
        head_time;
        head_actor;
        head_action;
        head_detail;
    }
}

texts! {
    /// References of `belljar bench`.
    BenchTexts {
        bare_fork;
        jupyter;
        needs_jupyter;
        pipe;
        no_filters;
        cell;
        program;
        no_checkpoints;
        pickle;
        write;
        read;
        save_and_load;
        uv;
        bare_tool;
        empty_sandbox;
        own_pooled;
        own_cell;
        grace;
        skipped(why: &str);
    }
}

texts! {
    /// Errors of sessions and environments, as a person sees them. The English texts are those of the errors themselves.
    ErrorTexts {
        mark;
        environment_name(name: &str);
        environment_is_image(name: &str);
        environment_exists(name: &str);
        environment_not_found(name: &str, known: &str);
        environment_broken(name: &str, reason: &str);
        uv_missing(reason: &str);
        uv_failed(step: &str, status: &str, output: &str);
        no_python;
        python_missing(path: &dyn Display, reason: &str);
        python_unsupported(path: &dyn Display, found: &str);
        package_invalid(package: &str, reason: &str);
        module_invalid(module: &str);
        preload(output: &str);
        limits(why: &dyn Display);
        walls(why: &dyn Display);
        template(environment: &str, why: &str);
        session(why: &dyn Display);
        ended(why: &str);
        busy;
        no_checkpoint(checkpoint: &dyn Display);
        too_many_checkpoints(limit: usize);
        not_checkpointed(why: &str);
        fork(why: &str);
        command(why: &str);
        unresponsive;
        cell_too_large(bytes: usize, limit: usize);
        file_too_large(path: &str, bytes: u64, limit: u64);
    }
}

texts! {
    /// Tools that no run has unless it is asked for: they are not part of the measured prompts.
    ToolTexts {
        run_command;
        run_command_line;
        run_command_timeout;
    }
}
