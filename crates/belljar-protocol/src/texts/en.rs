//! English.

use super::catalogue::{
    BenchTexts, DemoTexts, DoctorTexts, EnvTexts, ErrorTexts, KernelTexts, OutcomeTexts,
    PromptTexts, ReplyMarks, RunTexts, ServiceTexts, SessionTexts, SettingTexts, SettingsTexts,
    Texts, ToolTexts, quoted,
};

pub(super) static TEXTS: Texts = Texts {
    outcome: OutcomeTexts {
        headline_success: "The code ran to its end",
        headline_failure: "The code failed; the error below says where",
        headline_timeout: "The code was stopped at its time limit",
        headline_crashed: "The process that ran the code is gone",
        output: "Terminal output:",
        source: "Source:",
        error: "Error:",
        time_limit: |seconds| format!("Time limit: {seconds} s"),
        exit_code: |code| format!("Exit code: {code}"),
        files: "Files created or changed:",
        left_out: "Left out:",
        next: "What to do next:",
        no_walls: "This code ran WITHOUT walls (--walls=none): on the host itself, as its user",
        no_output: "(no output; print what you want to see)\n",
        failed: "The code failed. Find the cause, and run corrected code.",
        stopped: |seconds| {
            format!(
                "It was stopped after {seconds} s. Find a faster way: no repeated work, loops instead of recursion."
            )
        },
        missing_package: |package| {
            format!(
                "The module is not installed; the package `{package}` has it: write `# requires: {package}` as the first line of the code and run again."
            )
        },
        exception: "The exception above came from the code; correct the line it names and run again.",
        syntax: "The code did not compile, so nothing of it ran; correct the syntax and run again.",
        sys_exit: |code| {
            format!("The code called sys.exit({code}); remove the call if the rest should run.")
        },
        exited: |code| format!("The process exited with code {code}; do not call os._exit."),
        exited_by_signal: |code, signal| {
            format!("The process exited with code {code} (128 + {signal}); do not call os._exit.")
        },
        interrupted: "The caller interrupted the cell.",
        wall_time: |seconds| {
            format!(
                "The cell ran longer than {seconds} s; do less work at once, or ask for a longer limit."
            )
        },
        cpu_time: |seconds| {
            format!("The cell used more than {seconds} s of CPU time; do less work at once.")
        },
        memory: |mib| {
            format!(
                "The session used up its {mib} MiB of memory and was ended; load less at once, use smaller types or work in chunks."
            )
        },
        signal: |name, meaning| {
            format!(
                "The process was ended by {name}{meaning}; avoid the native call that caused it."
            )
        },
        invalid_memory_access: " (invalid memory access)",
        abort: " (abort)",
        arithmetic_fault: " (arithmetic fault)",
        illegal_instruction: " (illegal instruction)",
        killed: " (killed)",
        forbidden_system_call: " (forbidden system call)",
        output_limit: |mib| {
            format!("The cell wrote more than {mib} MiB; print less, or write to a file.")
        },
        protocol: |detail| {
            format!(
                "The process broke its channel to the host ({detail}); do not write to descriptors you did not open."
            )
        },
        variables_kept: " Variables of earlier cells are kept.",
        variables_before_first_cell: " Variables are back as they were before the first cell.",
        variables_after_cell: |cell| format!(" Variables are back as they were after cell {cell}."),
        variables_lost: " All variables are lost: define them again in a new session.",
    },
    prompts: PromptTexts {
        system: "You solve tasks by running Python in a session, step by step: run code, look at its \
             output, go on, and give the answer once an output shows it.\n\
             - Let Python do every calculation, every count and every change of characters, however \
             small. Never do it in your head.\n\
             - Copy texts and numbers of the task into the code exactly as they stand there.\n\
             - Print the values that matter. An answer rests on output that you have seen.\n\
             - Begin with one line that says what is asked for: one value or many, of what, in which \
             unit. Then the code, no explanations after it.\n\
             - When code fails, read the error, find the cause, and change the code.\n\
             - The answer says what was asked for, with the exact values of the output.\n",
        installed: |packages| format!("- Installed: {packages}.\n"),
        example_task: "Task: How many seconds are there in three weeks?",
        example_thought: "Asked for: one number, the count of seconds.",
        task: |task| format!("Task: {task}"),
        files: "\n\nFiles in the working directory:",
        file_begins: ", which begins:\n",
        parent: |task, steps| {
            format!(
                "You go on from an earlier run, in its session: its variables and files are there.\nIts task was: {task}\n{steps}"
            )
        },
        parent_answer: |answer| format!("\nIts answer was: {answer}"),
        output_of_cell: |cell| format!("Output of cell {cell}:\n"),
        result_of_tool: |tool| format!("Result of {tool}:\n"),

        native_instructions: "Act by calling tools. To run Python, call `python`; variables stay from call to call. \
             Calls that do not need each other's results may stand in one reply. Do not write code \
             as text. When you have seen the results that the answer rests on, give the answer, and \
             nothing else in that reply.",
        json_instructions: "Reply with one JSON object and nothing else. Fields:\n\
             - `thought`: your reasoning, short.\n\
             - `action`: `execute_code` (run new code), `debug_error` (run corrected code after an \
             error) or `provide_answer` (end with the answer).\n\
             - `code`: Python; only with `execute_code` and `debug_error`. Print what you need to \
             see. Variables stay from step to step.\n\
             - `final_answer`: text; only with `provide_answer`, after you have seen the results.",
        tags_instructions: "Write one action in each reply, in tags, each tag on a line of its own.\n\
             To run Python, write the code in <execution-code>. Print what you need to see. Variables \
             stay from step to step. If it needs libraries that are not installed, name them before \
             it, separated by commas, in <pip-dependencies-to-install>.\n\
             Stop after </execution-code>: the result is sent to you. When you have seen the results, \
             write the answer in <final-answer>.",
        fenced_instructions: "To run Python, write one block that begins with ```python and ends with ```. Print what \
             you need to see. Variables stay from step to step. Stop after the block: its output is \
             sent to you, do not write it yourself.\n\
             When you have seen the output that the answer rests on, write a line that begins with \
             FINAL: and then the answer. A reply has either a block or the answer, never both.",
        json_tools: "`action` can also be the name of a tool, with its `arguments`:\n",
        tags_tools: "To call another tool, write <tool name=\"NAME\">, its arguments as a JSON object, \
                 and </tool>. Tools:\n",
        fenced_tools: "To call another tool, write a block that begins with ``` and the tool's name, with \
                 its arguments as a JSON object inside. Tools:\n",
        native_form: "Call one of your tools, or give the answer.",
        forms: |forms| format!("Write it in one of these two forms:\n{forms}"),

        reply_empty: "Your reply was empty; nothing was run.",
        reply_truncated: "Your reply was cut off at the limit of length before it was \
                complete; nothing of it was run. Write less: do the work in smaller steps.",
        reply_without_action: |near| {
            format!(
                "Your reply has no action that could be found, so nothing was run. It begins: «{near}»"
            )
        },
        reply_json: |expected, near| {
            format!(
                "The JSON in your reply can't be read: {expected} was expected near «{near}». \
                 Escape quotes in strings as \\\" and line breaks as \\n."
            )
        },
        reply_without: |field| format!("Your reply has no `{field}`."),
        action_without: |action, field| {
            format!("`{action}` needs `{field}`, which is missing or empty.")
        },
        unknown_action: |given, known| {
            format!(
                "There is no action `{given}`. The actions are: {}.",
                quoted(known, ", ")
            )
        },
        unknown_tool: |given, known| {
            format!(
                "There is no tool `{given}`, so nothing was called. The tools are: {}.",
                quoted(known, ", ")
            )
        },
        answer_too_early: "The answer was not taken, because it came together with other \
                calls. Look at their results first, then answer.",

        undefined_name: |name, line| format!("`{name}` (line {line})"),
        undefined_names: |names| {
            format!(
                "The code was not run: nothing defines {names}. Run the whole of it again with what is missing."
            )
        },
        answer_without_code: "The answer was not taken, because nothing was run yet. Check it first: run code that works it out and prints it.",
        answer_after_failure: "The answer was not taken, because the last code failed and no output shows it. Correct the code, run it, and answer with what it prints.",
        review: |task| {
            format!(
                "Now check it: run other code that works the same out in another way, with plain loops, and prints it. The task was: {task}"
            )
        },
        answer_unseen: |values, task| {
            format!(
                "The answer was not taken: {values} stands in it, but in no output. Run other code that works it out, with plain loops, and prints it. The task was: {task}"
            )
        },
        answer_doubted: |doubts, task| {
            format!(
                "The answer was not taken yet: {doubts}. Run code that settles this, and answer with what it prints; if the data can't answer the task, say why; if the answer is right as it is, repeat it. The task was: {task}"
            )
        },
        doubt_nothing_run: "no code was run",
        doubt_last_call_failed: "the last code failed",
        doubt_unseen: |value| format!("no output shows `{value}`"),
        doubt_written_in_code: |value| {
            format!("`{value}` is written in the code that printed it, not computed")
        },
        doubt_file_missing: |file| format!("there is no file `{file}`"),
        doubt_data_not_read: "no code read the files of the task",
        doubt_name_omitted: "the task asks which one, and the answer names none of the data",
        doubt_number_omitted: "the task asks for a number, and the answer has none",
        doubt_no_total: "the task asks for a total, and the code that printed the value sums nothing up",
        doubt_no_average: "the task asks for an average, and the code that printed the value computes none",
        doubt_no_median: "the task asks for a median, and the code that printed the value computes none",
        doubt_not_distinct: "the task asks for different values, and the code does not remove duplicates",
        doubt_not_largest: "the task asks for the largest, and the code looks for the smallest",
        doubt_not_smallest: "the task asks for the smallest, and the code looks for the largest",
        doubt_column_missing: |column| {
            format!("the task names the column `{column}`, and the data has none of that name")
        },
        doubt_column_exists: |column| format!("the data has a column `{column}`"),
        doubt_ignored: |term| {
            format!(
                "the task names `{term}`, and neither the code nor the line of the result has it"
            )
        },
        doubt_not_converted: |from, to| {
            format!("the data is in {from}, the task asks for {to}, and no code converts it")
        },
        done_before: |step| {
            format!(
                "You did exactly this in step {step} already, and it gave the same. If it shows what was asked for, give the answer now; else do something else."
            )
        },
        failed_before: |step| {
            format!(
                "You did exactly this in step {step} already, and it failed in the same way. Do something else."
            )
        },
        keeps_failing: |steps, more| {
            format!(
                "The last {steps} steps failed. Don't try the same way again: look at the errors, find what they have in common, and go another way.{more}"
            )
        },
        skip_in_plan: " Mark what can't be done as skipped in the plan.",
        repetition: |variables, repeated| {
            format!(
                "You did the same several times with the same result, so the conversation was taken back to before it. {variables} What you repeated: {repeated}\nDo it in another way, or answer with what you have."
            )
        },
        failed_again: |error, variables| {
            format!(
                "Earlier code failed twice with `{error}` and was taken back. {variables} Use plain loops and the standard library only."
            )
        },
        showed_nothing: |variables| {
            format!(
                "Earlier code was run twice, did not show what was asked for, and was taken back. {variables} Use plain loops and the standard library only."
            )
        },
        variables_restored: "The variables are as they were then.",
        variables_current: "The variables are as they are now.",
        earlier_steps: "Earlier steps, shortened:",
        hidden_steps: |steps| format!("\n({steps} steps before these)"),
        your_plan: "\n\nYour plan:\n",
        session_variables: "\n\nVariables in the session: ",
        last_step: "This is your last step: give your answer now, as good as you have it.",
        steps_left: |steps| {
            format!(
                "{steps} steps are left: run the code that shows the answer, or give the answer."
            )
        },
        budget_nearly_used: "The budget is nearly used up: come to your answer soon.",
        bytes_left_out: |bytes| format!("\n[… {bytes} bytes left out …]\n"),
        all_in_file: |file| format!("\n[all of it is in the file {file}]"),

        host_restarted: "The host was restarted while this was done. Whether it took effect is not known: look before you do it again.",
        cell_differs: "The host was restarted while this cell ran. It was run again, but called other tools than the first time, so it was given up: the variables are as they were before it.",
        calls_made: "\nIt had called:",
        call_not_done: "not done",
        call_unknown: "whether it took effect is not known",
        call_done: "done",
        more_calls: |calls| format!("\n- and {calls} more"),
        cell_edited: |code| {
            format!(
                "A person changed the code before it ran. What ran is this:\n```python\n{code}\n```"
            )
        },
        cell_feedback: |text| {
            format!("The code was not run: a person looked at it first, and says: {text}")
        },
        cell_rejected: "The code was not run: a person looked at it and does not allow it. Go another way.",
        cell_held_back: "The code was not run, because a person did not allow what comes before it.",
        cell_given_up: "The cell did not react to the stop of the run; its session was ended.",
        call_rejected: "a person does not allow this call",
        call_feedback: |text| format!("a person does not allow this call, and says: {text}"),
        calls_used_up: |most| {
            format!("the code of this run may call tools {most} times, and has done so")
        },
        call_lost: "the host was restarted while this call was performed: whether it took effect is not known",
        names_not_kept: |names| {
            format!(
                "These names of the earlier run were not kept: {}.",
                names.join(", ")
            )
        },
        session_new: "The session is a new one: the earlier run has left no variables, and of its files only those that its task came with.",
        session_run_again: |cells| {
            format!(
                "The session of the earlier run was made again by running its {cells} cells again. What depends on time or chance may differ."
            )
        },
        session_not_run_again: |held| {
            format!(
                "The session is a new one: a person must approve code of the earlier run each time it runs, so its cells were not run again. All variables are gone, and of the files only those that the task came with are there. It held: {held}"
            )
        },
        session_loaded: "The host was restarted. The session was loaded again: all variables and files are there; threads, open files and connections are not.",
        session_loaded_without: |names| {
            format!(
                "The host was restarted. The session was loaded again; these names did not come back: {}. Threads, open files and connections are gone.",
                names.join(", ")
            )
        },
        session_lost: |held| {
            format!(
                "The session was lost and a new one was started: all variables are gone, and of the files only those that the task came with are there. It held: {held}"
            )
        },

        wrong_calls: "The code was not run: calls of tools in it are wrong.",
        wrong_call_line: |line| format!("\n- line {line}: "),
        no_tools: |tool| format!("there is no `tools.{tool}`; this session has no tools"),
        no_such_tool: |tool, known| format!("there is no `tools.{tool}`; there are: {known}"),
        no_parameter: |name| format!("no parameter `{name}`"),
        too_many_arguments: |given| format!("{given} arguments are too many"),
        two_values: |name| format!("two values for `{name}`"),
        missing_arguments: |names| format!("{names} is missing"),
        call_form: |signature| format!("; it is `tools.{signature}`"),
        wrong_calls_again: "\nRun the whole of it again, corrected.",

        branches: |tool, most, check| {
            format!(
                "Where it is not clear which way is right, `x = tools.{tool}([a, b])` tries up to {most} values: \
                 for each, the rest of the cell runs in a copy of the session, and the first is given with which \
                 this is true at the end: `{check}`. If it is so with none, it is an error that says what came of \
                 each. Call it without `await` and threads. After it, in the same cell, call no other tools, and \
                 name files without `/workspace/`.\n"
            )
        },
        branch_count: |most, given| {
            format!("from 1 to {most} alternatives can be tried, not {given}")
        },
        branch_stopped: |milliseconds| format!("it was stopped after {milliseconds} ms"),
        branch_memory: "it used up the memory",
        branch_output: "it wrote too much",
        branch_signal: |name| format!("{name} ended it"),
        branch_exit: |code| format!("it exited with {code}"),
        branch_unfinished: "it did not come to its end",
        check_false: "the check is false",
        check_failed: |why| format!("the check failed: {why}"),
        none_accepted: "no alternative was accepted",
        not_forked: |why, tool| {
            format!(
                "nothing was tried: {why}. Call `tools.{tool}` without `await` and threads, while no other call is open"
            )
        },
        no_calls_in_branch: "in a branch no tools can be called, nor branches tried: call them before `tools.branch`, or in the next cell",

        tool_purpose: "Why this tool is called now.",
        tools_module: "The module `tools`, which is there without an import, has functions of the host:\n",
        tools_colon: ": ",
        tools_calling: "Call one as `tools.NAME(...)`: it blocks and gives a Python value. Several at once: \
             `await asyncio.gather(tools.a(...), tools.b(...))`; in code with `await`, await every \
             call.\n\
             Work with the results in Python and print only what matters, not all of them. A result \
             that shows as ⟦…⟧ stays with the host: write that mark into the answer where it belongs.\n",
        tools_more: |tools| format!("- and {tools} more: `dir(tools)`\n"),
        tools_help: "`help(tools.NAME)` tells what one does and takes: look before the first call.\n",
        python_tool: "Runs a cell of Python in the session and returns what it prints, the value of its last \
             line, and what went wrong. Variables, imports and files stay from cell to cell.",
        python_code: "Python source.",
        answer_tool: "Ends the run with the answer. Call it alone, after you have seen the results that the \
             answer rests on.",
        answer_text: "The answer, with the exact values.",
        compute_tool: "Evaluates one Python expression exactly, at once. Use it whenever characters, digits \
                 or order must be right: reversing, slicing, counting or splitting strings, \
                 arithmetic, sorting. No statements, imports, files or network. `math` is there; \
                 `last_result` is the value of the call before. Example: 'a,b,c'.split(',')[1]",
        compute_code: "One Python expression.",
        compute_about: "What it computes.",
        compute_taken_away: |tool, errors, calls| {
            format!(
                "`{tool}` is taken away: {errors} of {calls} expressions were errors. Use `python` instead."
            )
        },
        read_file_tool: "Reads a text file of the working directory. Of a file over the size limit it tells the \
             size and the number of lines only.",
        read_file_path: "Path relative to the working directory.",
        read_file_encoding: "How the text is encoded: utf-8, latin-1, ascii or utf-16.",
        read_file_size: "The largest file that is read, in megabytes.",

        plan_tool: "Keep your plan: call it first, before other tools, and again whenever a task's status \
             changes or tasks are added. Send the whole tree each time. You get back what changed, \
             the plan as a checklist, statistics, and the tasks that are ready. Rather add tasks and \
             change their status than remove them. Dependencies are names of tasks.",
        plan_changes: "Changes",
        plan_checklist: "Checklist",
        plan_statistics: "Statistics",
        plan_ready: "Ready to be done",
        plan_counts: |total, counts, percent| {
            format!(
                "{total} tasks: {}; {percent} % completed",
                counts.join(", ")
            )
        },
        plan_none_ready: "none",
        plan_names_ready: |names| names.join(", "),
        plan_made: "✅ The plan was made",
        plan_added: |names| format!("🆕 Added: {}", names.join(", ")),
        plan_removed: |names| format!("🗑️ Removed: {}", names.join(", ")),
        plan_status: |changes| format!("🔄 Status: {}", changes.join(", ")),
        plan_status_change: |name, from, to| format!("{name} ({from} → {to})"),
        plan_moved: |changes| format!("📌 Moved: {}", changes.join(", ")),
        plan_move: |name, from, to| format!("{name} (parent: {from} → {to})"),
        plan_root: "root",
        plan_unchanged: "ℹ️ Nothing changed in the plan",
        plan_task: |name, id| format!("**{name}** (ID: {id})"),
        plan_task_status: |status| format!(" | status: {status}"),
        plan_task_about: |text| format!("about: {text}"),
        plan_task_result: |text| format!("result: {text}"),
        task_pending: "pending",
        task_processing: "processing",
        task_completed: "completed",
        task_failed: "failed",
        task_retry: "retry",
        task_skipped: "skipped",
    },
    replies: ReplyMarks {
        output: &[
            "output",
            "observation",
            "observations",
            "execution result",
            "execution_result",
            "execution output",
            "expected output",
            "the output",
            "stdout",
            "result",
        ],
        alternative: &[
            "alternativ",
            "another way",
            "another approach",
            "or you can",
            "you could also",
        ],
        answer: &[
            "final answer",
            "the final answer is",
            "final result",
            "answer",
            "final",
        ],
    },
    run: RunTexts {
        model_writing: "the model is writing",
        running: "running",
        retrying: |why, seconds| format!("[{why}; retrying in {seconds:.1} s]"),
        output_truncated: "[output truncated here: too long]",
        image: |media_type, bytes| format!("[image: {media_type}, {bytes} bytes]"),
        step: |step, seconds, tokens| format!("── step {step} · {seconds:.1} s · {tokens} tokens"),
        rolled_back: "[repetition detected, rolled back]",
        more_calls: "[more calls]",
        accepted: "accepted",
        approved: "[approved]",
        approved_rest: "[approved, also similar requests for the rest of the run]",
        edited: "[code edited by a person:]",
        not_approved: "[not approved]",
        not_approved_because: |why| format!("[not approved: {why}]"),
        more_thought: |lines| format!("[{lines} more lines of thought]"),
        plan: |goal| format!("plan: {goal}"),
        cost: |money| format!(" · cost {money:.4}"),
        totals: |steps, tokens| format!(" · {steps} steps · {tokens} tokens"),
        total_time: |totals, seconds| format!("── {totals} · {seconds:.1} s"),
        answer: "── answer",
        answer_unverified: "── answer (unverified)",
        last_output: "── last output (not an answer)",
        files: |names, directory| format!("files: {names} in {directory}"),
        not_kept: |path, why| format!("not kept: {path} ({why})"),
        more_not_kept: |files| format!("{files} more files were not kept"),
        not_answered: |why| format!("[not answered: {why}]"),
        unverified: |doubt| format!("[unverified: {doubt}]"),
        computed_in_cell: |value, cell, expression, how| {
            format!(
                "{value}: computed in cell {cell} by `{expression}`{how} (shows origin, not correctness)"
            )
        },
        from_files: |files| format!(" from {files}"),
        printed_by_cell: |value, cell, rounded| {
            format!("{value}: printed by cell {cell}{rounded} (shows origin, not correctness)")
        },
        result_of_step: |value, step, rounded| {
            format!("{value}: result of step {step}{rounded} (shows origin, not correctness)")
        },
        rounded: ", rounded",
        weak_other_row: ", but in another row than the answer says",
        weak_other_column: ", but in another column than the answer says",
        weak_other_measure: ", but as another measure than the answer says",
        weak_other_unit: ", but in another unit",
        weak_outdated: ", but a later cell changed the data",
        weak_incidental: ", but as a part of something else, such as a row number or a date",
        given_in_task: |value| format!("{value}: given in the task"),
        file_of_run: |value| format!("{value}: a file of the run"),
        written_in_code: |value, cell| {
            format!("{value}: written in the code of cell {cell}, not computed")
        },
        seen_nowhere: |value| format!("{value}: seen nowhere"),
        heading_answer: "Answer",
        heading_unverified: "Answer (unverified)",
        heading_not_answered: |why| format!("Not answered: {why}"),
        heading_last_output: "Last output (not an answer)",
        heading_record: "Record",
        record_run: "Run",
        record_times: "First and last event",
        record_model: "Model",
        record_use: "Use",
        record_isolation: "Isolation",
        record_versions: "Environment",
        record_installed: "Installed by cells",
        record_files: "Files of the task",
        record_made: "Files of the run",
        record_approvals: "Approvals",
        decision_open: "not decided",
        decision_accepted: "approved",
        decision_accepted_rest: "approved, also similar requests for the rest of the run",
        decision_edited: "replaced by code of a person",
        decision_rejected: "rejected",
        decision_feedback: |text| format!("rejected: {text}"),
        signed_page: |key| {
            format!(
                "Signed with the key {key}. `belljar runs verify FILE` checks that the page is as it was signed."
            )
        },
        signature_holds: "the page is as it was signed",
        signature_key: |key| {
            format!(
                "[signed with {key}: compare it with the key of the service, or pass --key KEY]"
            )
        },
        signature_of_other_key: |key| {
            format!("the page is signed, but with another key: {key}\nhint: somebody else wrote it")
        },
        reason_answered: "answered",
        reason_unverified: "unverified",
        reason_model_failed: "the request to the model failed",
        reason_not_understood: "the model's replies were not understood",
        reason_repetition: "the run kept repeating itself",
        reason_budget: |part| format!("the budget does not allow another step ({part})"),
        reason_stopped: "stopped",
        ending: "[ending the run]",
        interrupted: "[cell interrupted; press Ctrl-C again to end the run]",
        waits: |id| {
            format!(
                "[the run waits for approval: resume it with `belljar runs approve {id} --accept`, `--reject`, \
                 `--feedback TEXT` or `--edit FILE`]"
            )
        },

        approval: |id, question| format!("── approval {id}: {question}"),
        may_run: "run this cell?",
        may_call: |tool| format!("may the code call {tool}?"),
        finding: |capability, what, line| format!("   {capability}: {what} (line {line})"),
        cell_choices: "[a] run  [d] run, and don't ask again for similar code  [e] edit  [f] give feedback  [r] reject  \
                 [q] end the run: ",
        call_choices: "[a] call  [d] call, and don't ask again for this tool  [f] give feedback  [r] reject  [q] end the \
                 run: ",
        no_such_choice: |typed| {
            format!("[`{typed}` is not a choice: type a letter in brackets, then press Enter]")
        },
        feedback: "feedback: ",
        edited_code: "── the edited code:",
        edited_choices: "[a] run  [e] edit again  [r] discard: ",

        task_empty: "the task is empty",
        check: |error| format!("`--check`: {error}\nhint: for example `len(rows) == 3`"),
        file_unreadable: |path, error| {
            format!(
                "`--put {path}`: {error}\nhint: check the path, which is relative to the current directory, and \
                 its permissions"
            )
        },
        file_not_regular: |path| {
            format!("`--put {path}`: neither a regular file nor a directory of regular files")
        },
        file_name_invalid: |path| format!("`--put {path}`: the file name is not valid UTF-8"),
        file_name_twice: |path| {
            format!("`--put {path}`: another file has the same name\nhint: rename one of them")
        },
        out_exists: |path, files| {
            format!(
                "`--out`: {files} files exist and were not replaced, such as `{path}`\nhint: use another directory, or \
                 add `--overwrite`"
            )
        },
        out_too_many: |files| {
            format!(
                "the workspace has more than {files} files, too many to copy\nhint: let the code write an archive"
            )
        },

        no_such_run: |id| format!("no such run: `{id}`\nhint: `belljar runs list` lists all runs"),
        ambiguous_run: |id, runs| {
            format!(
                "the id `{id}` is ambiguous: {runs} runs begin with it\nhint: give more of the id"
            )
        },
        no_first_event: "the journal of the run has no first event",
        no_approval: |id| format!("run `{id}` has no pending approval"),
        several_approvals: |pending, ids| {
            format!(
                "{pending} approvals are pending\nhint: select one with `--only`: {ids}, or `all`"
            )
        },
        no_such_approval: |approval, id| {
            format!(
                "no pending approval `{approval}`\nhint: `belljar runs approve {id}` lists them"
            )
        },
        head_run: "run",
        head_started: "started",
        head_state: "state",
        head_steps: "steps",
        head_cost: "cost",
        head_task: "task",
        state_answered: "answered",
        state_unverified: "unverified",
        state_ended: "ended",
        state_waits: "waits",
        state_running: "running",
        state_interrupted: "interrupted",
        no_runs_yet: |directory| format!("[no runs in {directory}]"),
        more_runs: |id| format!("[earlier runs: `belljar runs list --before {id}`]"),
        run_deleted: |id| format!("[run {id} deleted, with its files and artifacts]"),
        run_driven: |id| {
            format!("run `{id}` is running\nhint: end it first, with Ctrl-C where it was started")
        },

        replay_prompts_differ: |recorded, current| {
            format!(
                "[the run was recorded with other prompts ({recorded}, now {current}): its requests may differ]"
            )
        },
        replay_would: |step, what| {
            format!("step {step} differs: recorded a model request, now the run would {what}")
        },
        replay_call_tools: "call tools",
        replay_roll_back: "roll back",
        replay_end: "end",
        replay_other: "do something else",
        replay_differs: |step, byte| format!("step {step} differs at byte {byte}:"),
        replay_recorded: |text| format!("  recorded: {text}"),
        replay_now: |text| format!("  now:      {text}"),
        replay_identical: |requests| format!("{requests} requests, all identical"),
        reproducing: "running the code again, twice, in new sessions",
        reproduced_so_far: |done, all| format!("running the code again: {done} of {all} steps"),
        head_value: "VALUE",
        head_verdict: "RESULT",
        head_where: "FROM",
        head_now: "NOW",
        in_cell: |cell| format!("cell {cell}"),
        in_step: |step| format!("step {step}"),
        in_file: "file",
        verdict_identical: "identical",
        verdict_changed: "changed",
        verdict_not_deterministic: "not deterministic",
        verdict_not_run: "not run again",
        reproduced_part: |identical, all, what| format!("{what}: {identical} of {all} identical"),
        reproduced_nothing: "the run has no code that could be run again",
        reproduced_values: "values",
        reproduced_files: "files",
        reproduced_cells: "cells",

        time_all: "all",
        time_model: "model",
        time_tools: "tools",
        time_other: "other",
        cost_unknown: "unknown",
        timing: |steps, calls, rollbacks, read, written, cost| {
            format!(
                "{steps} steps, {calls} calls, {rollbacks} rollbacks; {read} input tokens, {written} output tokens; cost \
             {cost}"
            )
        },
        timing_head: "step   model s   tools s  read  written      cost  tools",
        failed_calls: |calls| format!(" ({calls} failed)"),
        slowest: |steps| format!("slowest steps: {steps}"),
        repeated: |steps, seconds, call| {
            format!("repeated in steps {steps} ({seconds:.3} s): {call}")
        },
    },
    session: SessionTexts {
        no_walls: "[--walls=none: code runs as you on this machine, without isolation]",
        allow_needs_walls: "`--allow` needs walls: with `--walls=none`, code has your network access\nhint: leave out \
                 `--allow`, or use `--walls=full`",
        starting: "starting Python and importing its libraries",
        installing: "installing packages",
        installed: |packages| format!("[installed {packages}]"),
        package_by_library: |package| {
            format!(
                "The module is not installed, and this session may not install the package `{package}`; \
                 `SessionOptions::packages` and `EngineBuilder::packages` can allow it."
            )
        },
        package_by_command: |package| {
            format!(
                "The module is not installed, and this session may not install packages; start `belljar` with \
                 `--packages {package}`, and write `# requires: {package}` as the first line of the code."
            )
        },
        package_by_service: |package| {
            format!(
                "The module is not installed, and this session may not install the package `{package}`; the operator \
                 allows it with `belljar serve --packages {package}`, and `packages.allow` of the session must not \
                 leave it out."
            )
        },
        network_by_library: |host| {
            format!(
                "The session may not reach this host; `SessionOptions::network` can allow `{host}`."
            )
        },
        network_by_command: |host| {
            format!("The session may not reach this host; start `belljar` with `--allow {host}`.")
        },
        network_by_service: |host| {
            format!(
                "The session may not reach this host; list `{host}` in `network.allow` when you create the session. \
                 The operator allows it with `belljar serve --allow {host}`."
            )
        },
        network: |denial| format!("[network: {denial}]"),
        rest_not_kept: "[output truncated; the rest was not kept]",
        long_output: |path| format!("[long output: all is in {path} while the session is live]"),
        long_output_beginning: |path| {
            format!("[long output: the beginning is in {path} while the session is live]")
        },
        file: |path, bytes| format!("[file: {path} ({bytes} bytes)]"),
        not_saved: |name, why| format!("[not saved: {name} ({why})]"),
        not_restored: |name, why| format!("[not restored: {name} ({why})]"),
        file_not_saved: |path, why| format!("[file not saved: {path} ({why})]"),
        more_not_saved: |names| format!("[not saved: {names} more]"),
        more_not_restored: |names| format!("[not restored: {names} more]"),
        more_files_not_saved: |files| format!("[file not saved: {files} more]"),
        other_packages: |packages| format!("[different packages: {packages}]"),
        image: |path| format!("[image: {path}]"),
        image_not_shown: |error| format!("[cannot show an image: {error}]"),
        no_code: "no code given",
        code_is_path: |path| {
            format!(
                "`{path}` looks like a file, not like code\nhint: did you mean `--file {path}`?"
            )
        },
        ignores_interrupt: "[the cell ignores the interrupt; ending its session]",
        packages_unnamed: "`--packages any` installs nothing: a shell has no `# requires:` lines\nhint: name the packages, as \
                 in `--packages humanize,rich`",
        command_lost: |why| format!("the end of the command is unknown: {why}"),
        command_exit_code: |code| format!("[exit code {code}]"),
        command_signal: |signal| format!("[ended by {signal}]"),
        output_lost: |bytes| {
            format!("{bytes} bytes of the output were lost: the host's memory for output is full")
        },
        secret_not_set: |name| {
            format!(
                "`--secret {name}`: belljar's own environment has no variable `{name}`\nhint: export it first; the \
                 value is never on the command line"
            )
        },
        secret_not_text: |name| {
            format!("`--secret {name}`: the value of the variable `{name}` is not UTF-8 text")
        },
        no_agent: |error| format!("[tool `ask_agent` is unavailable: {error}]"),
        no_runs: |error| format!("[no runs: {error}]"),

        welcome: |version, python, environment| {
            format!("Belljar {version}: Python {python}, environment {environment}")
        },
        keys: "Ctrl-D quits, Ctrl-C interrupts a cell, /help lists the commands.",
        new_session: "[new session: the variables and files of the old one are gone]",
        back: "[back in the session before /fork]",
        cannot_go_back: "cannot go back: there was no `/fork`\nhint: `/fork` switches to a fork of this session",
        still_running: "[the cell is still running; Ctrl-C again ends its session and loses the \
                             variables]",
        in_fork: "[in a fork: its changes of variables and files stay in it; /back drops it]",
        lost_back: "[session lost; back in the session before /fork]",
        lost_new: "[session lost; this is a new one: variables and files are gone]",
        loading: "loading the snapshot",
        loaded: |names, files| format!("[new session; restored names: {names}, files: {files}]"),
        starting_session: "starting a new session",
        history_not_saved: |error| format!("[the history is not saved: {error}]"),

        help_help: "show this list",
        help_vars: "list the variables",
        help_files: "list the files of the workspace",
        help_put: "copy a file or directory from this machine to the workspace",
        help_get: "copy a file or directory from the workspace to this machine",
        help_checkpoint: "make a named checkpoint of the variables",
        help_checkpoints: "list checkpoints and the memory they hold",
        help_restore: "restore the variables of a checkpoint, by name or cell; files stay",
        help_fork: "switch to a fork: a copy of the session with its variables and files",
        help_back: "drop the fork and return to its parent session",
        help_save: "write a snapshot of variables and files on this machine",
        help_load: "start a new session from a snapshot",
        help_reset: "start a new, empty session",
        help_quit: "quit (or Ctrl-D)",
        help_end: "!COMMAND runs a shell command in the session. Everything else is Python.\nAn empty line ends a block; Tab \
         completes; Ctrl-C clears the line,\nor interrupts the running cell and keeps the variables.\n",
        no_arguments: |command| format!("`{command}` takes no arguments"),
        usage: |form| format!("usage: `{form}`; quote names with spaces"),
        checkpoint_number: |name| {
            format!(
                "`{name}` cannot be the name of a checkpoint: a number means a cell\nhint: choose \
                     another name"
            )
        },
        no_such_command: |command, commands| {
            format!("no such command: `{command}`\nhint: commands: {commands}")
        },
        unclosed_quote: |quote| format!("unclosed quote `{quote}`"),
        no_variables: "[no variables yet]",
        checkpoint_made: |name| format!("[checkpoint made; `/restore {name}` restores it]"),
        no_checkpoints: "[no checkpoints yet: one is made after each cell]",
        restored: "[variables restored]",
        no_files: "[the workspace is empty; /put PATH copies a file into it]",
        not_a_file: "not a file",
        list_truncated: "[list truncated]",
        no_file_name: |path| format!("`{path}` has no file name\nhint: give one: `/put PATH NAME`"),
        cannot_read: |path| format!("cannot read `{path}`"),
        cannot_write: |path| format!("cannot write `{path}`"),
        not_regular: |path| format!("`{path}` is not a regular file"),
        too_large: |path, size, limit| {
            format!("`{path}` is too large: {size}, more than the limit of {limit}")
        },
        not_a_file_name: |name| format!("`{name}` is not a file name"),
        already_exists: |path| {
            format!(
                "`{path}` already exists\nhint: `/get NAME PATH` writes to PATH and overwrites it"
            )
        },
        saved: |path, names, files, size| {
            format!("[{path}: names: {names}, files: {files}, {size}]")
        },
        head_size: "size",
        head_path: "path",
        head_cell: "cell",
        head_name: "name",
        head_memory: "memory",
        head_type: "type",
        head_shape: "shape",
        seed: "seed",
    },
    kernel: KernelTexts {
        lost: "The session was lost and replaced by a new one: variables and files are gone. Run the notebook from \
               its beginning.",
        files_of_session: "New files are in the session's memory and end with the kernel. To write into the notebook's \
                           directory, install the kernel by `belljar kernel install -- --files rw`.",
        files_hidden: |path| {
            format!(
                "The directory `{path}` contains your home directory, so code does not see its files. Start Jupyter in \
                 a directory of the project, or pass one with `--mount`."
            )
        },
        installed: |name, path| format!("[kernel `{name}` installed in {path}]"),
    },
    settings: SettingsTexts {
        file_exists: |path| format!("{path} already exists and was not changed"),
        file: |path| format!("settings file: {path}"),
        file_missing: |path| {
            format!("settings file: {path} (does not exist; `belljar config init` writes one)")
        },
        key_set: " (set)",
        key_not_set: " (not set)",
        not_set: "not set",
        from_profile: |name| format!("profile {name}"),
        from_default: "default",
        no_model: "no model is set\nhint: give PROVIDER/MODEL with `--model`, in the variable \
                         `BELLJAR_MODEL`, or in the settings file (`belljar config init` writes one)",
        no_prices: |model, file| {
            format!(
                "the money budget needs prices, and the prices of `{model}` are unknown\nhint: remove the \
                     limit, or add prices per million tokens to {file}:\n\
                     [prices.\"{model}\"]\ninput = 0.0\noutput = 0.0"
            )
        },
        incomplete_prices: |model, file| {
            format!("{file}: the prices of `{model}` need both `input` and `output`")
        },
        home_invalid: |name| format!("{name}: the path of the home directory is not valid UTF-8"),
        named_file: "hint: `BELLJAR_CONFIG` names this file; `belljar config init` writes one there",
        is_table: |name| format!("`{name}` is a table\nhint: write `[{name}]`"),
        no_such_setting: |name, nearest, allowed| {
            format!("no such setting: `{name}`\nhint: {nearest}allowed here: {allowed}")
        },
        wrong_value: |name, expected| format!("`{name}` must be {expected}"),
        no_such_provider: |name, nearest, providers| {
            format!(
                "no such provider: `{name}`\nhint: {nearest}the providers are {providers}; for other OpenAI-compatible \
             servers, use `vllm` with a base URL"
            )
        },
        nearest: |name| format!("did you mean `{name}`? "),
        expected_text: "a string in quotes",
        expected_model: "a model in quotes, as \"ollama/qwen2.5-coder\"",
        expected_path: "a path in quotes that begins with / or ~/",
        expected_one_of: |words| format!("one of {words}"),
        expected_switch: "true or false",
        expected_count: "a whole number from 1 to 4294967295, without quotes",
        expected_amount: "a number of 0 or more, without quotes",
        expected_words: "a list of strings, as [\"one\", \"two\"]",
        expected_sources: "a table of strings, each \"variable:NAME\", \"file:PATH\" or \"text:…\"",
        expected_headers: "a table of strings, each \"variable:NAME\" or \"file:PATH\", optionally after \"Bearer \"; \
                 never the key itself",
        template: "# Settings of Belljar. Each line is an example; remove the # to use it.\n\
         # `belljar config` shows the effective settings and their sources.\n\
         # Never write a key here: name the variable or file that holds it.\n",

        no_servers: |file| {
            format!(
                "[no MCP servers: {file} has no table [mcp.NAME]; see `belljar mcp-servers --help`]"
            )
        },
        no_such_server: |name, servers| {
            format!(
                "no such MCP server in the settings: `{name}`\nhint: configured servers: {servers}"
            )
        },
        granted: |tools| format!("{tools} granted"),
        read_only: "read-only",
        idempotent: "idempotent",
        not_granted: |tool, why| format!("{tool}  NOT GRANTED: {why}"),
        tool_withheld: |server, tool, why| {
            format!("[{server}: tool `{tool}` is not granted: {why}]")
        },
        accept_tools: |server| {
            format!(
                "[hint: `belljar mcp-servers` lists its current tools, `belljar mcp-servers accept {server}` \
                 accepts them]"
            )
        },
    },
    setting: SettingTexts {
        model: "Model, as PROVIDER/MODEL",
        language: "Language of prompts and messages [default: the system's]",
        temperature: "Sampling temperature [default: the server's]",
        review: "Have the model work out its answer again, differently (two more steps)",
        data_dir: "Directory of environments",
        runs_dir: "Directory of runs",
        budget_steps: "Steps, each a turn of the model",
        budget_tokens: "Tokens of all requests and replies",
        budget_money: "Money, in the currency of the prices",
        budget_seconds: "Time of model and tools [seconds]",
        budget_calls: "Tool calls",
        budget_cell_calls: "Tool calls made by code",
        approvals_policy: "Which code and tool calls need approval: never, risky or always",
        approvals_tool: "Policy for one tool, by name",
        approvals_capability: "Policy for one capability of code: files_read, files_written, network, processes, deletions, installs, unknown",
        base_url: "Base URL of the provider's server",
        key_variable: "Environment variable with the API key",
        key_file: "File with only the API key; takes precedence over the variable",
        allow_plain_http: "Send the key over plain HTTP to other machines",
        dialect: "How the provider's models write actions: native, json, tags or fenced",
        context_window: "Context window: tokens of a conversation and its reply together",
        max_tokens: "Maximum tokens of one reply",
        price_input: "Price per million input tokens",
        price_output: "Price per million output tokens",
        price_cached_input: "Price per million input tokens read from cache [default: input]",
        price_cache_write: "Price per million input tokens written to cache [default: input]",
        mcp_command: "Command and arguments of a local MCP server",
        mcp_env: "Environment variables of the server: variable:NAME, file:PATH or text:…",
        mcp_url: "URL of a remote MCP server, instead of `command`",
        mcp_headers: "HTTP headers for the server: variable:NAME or file:PATH",
        mcp_trusted: "Trust the server's claim that a tool is read-only",
        mcp_tools: "Granted tools [default: all]",
        mcp_direct: "Let the model also call the tools directly, without code",
        mcp_timeout: "Time limit of a call [seconds]",
    },
    demo: DemoTexts {
        sales_title: "A sales table, with a chart",
        sales_task: "Which region had the most revenue in sales.csv, and how much was it in all? Draw the revenue of each month.",
        sales_look: "Task: one region, its revenue, the sum, and a chart. First, look at the table.",
        sales_sum: "Revenue is units times price. By region, largest first.",
        sales_chart: "Now the chart, saved as a file.",
        sales_answer: "{best} had the most revenue: {most} of {total} in all. The strongest month was {month}. The chart is in revenue.png.",
        repair_title: "An error and its repair",
        repair_task: "What did each customer of orders.csv pay in all? Say which orders could not be counted.",
        repair_goal: "The amount that each customer paid",
        repair_read: "Read the orders",
        repair_add: "Add up the amounts",
        repair_check: "Check what was left out",
        repair_numbers: "Task: one amount per customer. Read the amounts as numbers.",
        repair_commas: "Some amounts have a comma, which Python does not parse, and one may be missing. Remove the \
                     commas and check the rest.",
        repair_answer: "Okafor paid {Okafor}, Moreau {Moreau}, Lindqvist {Lindqvist} and Tanaka {Tanaka}. Order {left_out} has no amount and is not counted.",
        approval_title: "A cell that needs approval",
        approval_task: "Remove the customers who asked for deletion from customers.csv. I approve everything before it \
             runs.",
        approval_remove: "Task: the file without the customers who asked for deletion. This changes a file: you can \
                 approve it, edit it, or give feedback.",
        approval_answer: "Your decision was executed. customers.csv: kept {kept}, removed {removed}.",
        crash_title: "A crash, and the restored state",
        crash_task: "Count the primes below 20,000. Then crash the interpreter, and show which results are still \
             there.",
        crash_count: "Task: one count. First, the computation.",
        crash_now: "Now the crash: the process aborts in the middle of a cell, as with a faulty library.",
        crash_check: "The interpreter crashed. The session was restored from the checkpoint before the cell: \
                     check it.",
        crash_answer: "There are {count} primes below 20,000. After the crash all {still} were still there; the largest is {largest}.",
        other_code: "This is a demo without a language model, and I know only four tasks; yours is not one of them. I \
             run a small cell to show a session at work.",
        other_answer: "This is a demo without a language model, so your task was not executed. The session is real: it runs Python {python}; its files: {files}. For real runs, start belljar serve with the option --model.",
    },
    tools: ToolTexts {
        run_command: "Runs a shell command in the same machine and working directory as the Python code, and returns its exit code and output. Use it for programs; use Python for data. Commands of one reply run before its Python code.",
        run_command_line: "The line for `/bin/sh`.",
        run_command_timeout: "Time limit in seconds.",
    },
    doctor: DoctorTexts {
        ok: "ok",
        missing: "MISSING",
        note: "note",
        remedy: |text| format!("do: {text}"),
        kernel: "linux kernel",
        user_namespaces: "user namespaces",
        privileges: "privileges",
        temporary_files: "temporary files",
        open_files: "open files",
        environments: "environments",
        session: "a session",
        no_python: "no Python found",
        install_python_and_uv: "install python3 and uv, then: belljar env create",
        kernel_unknown: |release| format!("{release} (unknown version)"),
        check_kernel: "check that it is Linux 5.19 or later",
        kernel_old: |release| format!("Linux {release}; version 5.19 or later is required"),
        update_kernel: "update the kernel to 6.1 or later; 6.12 or later is recommended",
        version: |version| format!("version {version}"),
        landlock_missing: "disabled, or not part of this kernel",
        boot_with_landlock: "boot with lsm=landlock,… followed by the modules in /sys/kernel/security/lsm",
        landlock_old: |version, least| {
            format!("version {version}; version {least} or later is required")
        },
        landlock_no_truncate: |version| {
            format!(
                "version {version}: os.truncate(path) is refused, file.truncate() works; only namespaces isolate signals and abstract sockets"
            )
        },
        landlock_files: |version| {
            format!(
                "version {version}: covers files; only namespaces isolate signals and abstract sockets"
            )
        },
        newer_kernel_all: "optional: Linux 6.12 or later adds a second layer for all of these",
        newer_kernel: "optional: Linux 6.12 or later adds a second layer for these",
        seccomp_works: "system call filters work",
        seccomp_missing: "this kernel cannot filter system calls",
        kernel_with_seccomp: "use a kernel with CONFIG_SECCOMP_FILTER, as in every distribution",
        namespaces_work: "can be created and used",
        namespaces_refused: |by, error| format!("cannot be used: refused by {by} ({error})"),
        container_filter: "the container's seccomp filter",
        namespaces_fail: |error| format!("cannot be created: {error}"),
        sysctl: |setting| {
            format!(
                "sudo sysctl -w {setting} (permanently: echo {setting} | sudo tee /etc/sysctl.d/60-belljar.conf)"
            )
        },
        apparmor_profile: |profile| {
            format!(
                "install the Debian package, or write this to /etc/apparmor.d/belljar, then run `sudo apparmor_parser --replace /etc/apparmor.d/belljar`:\n{profile}"
            )
        },
        for_all_programs: |remedy| format!("or, for all programs: {remedy}"),
        or_as_root: "or run belljar as root",
        in_container: "in a container: use the options and profiles in docs/operations.md, \"In a container\"",
        as_root: "root: each session has its own user id on the host",
        as_user: "not root: all sessions share your user id on the host, behind the same walls",
        as_user_remedy: "none for your own code; with several tenants, run belljar as root on the host",
        cgroups_work: |version| {
            format!("version {version}; memory, processes and CPU can be limited")
        },
        cgroup_left: |version| format!("version {version}; cannot remove a test cgroup"),
        boot_with_cgroup2: |scope| {
            format!(
                "boot with systemd.unified_cgroup_hierarchy=1 (cgroup version 2), then: {scope}"
            )
        },
        container_settings: "in a container: start it with the settings in docs/operations.md",
        not_writable: |directory, error| format!("cannot write to {directory}: {error}"),
        set_tmpdir: "set TMPDIR to a directory with write permission",
        space_unknown: |directory, error| {
            format!("{directory} is writable; free space unknown: {error}")
        },
        little_space: |directory, mib| {
            format!("{directory} is writable, but has only {mib} MiB free")
        },
        free_space: "free some space (long outputs of cells are stored there), or set TMPDIR to another directory",
        space: |directory, mib| format!("{directory} is writable, {mib} MiB free"),
        no_limit: "no limit",
        files_limit: |limit, sessions| {
            format!("limit {limit}, enough for about {sessions} sessions")
        },
        raise_files_limit: "raise the hard limit: `ulimit -Hn 65536` as root, or LimitNOFILE=65536 in the systemd unit",
        uv_remedy: "pip install uv (or set BELLJAR_UV to its path); only needed to build environments",
        uv_missing: "no uv in PATH",
        uv_exited: |path, status| format!("{path} exited with {status}"),
        uv_not_started: |path, error| format!("cannot start {path}: {error}"),
        uv_silent: |path| format!("{path} did not respond"),
        python_missing: "no python3 in PATH",
        python_remedy: "install Python 3.10 or later with your package manager, or `uv python install`",
        environments_unreadable: |error| format!("cannot be read: {error}"),
        own_data_dir: "set BELLJAR_DATA_DIR to a directory that you own",
        environments_broken: |usable, error| format!("usable: {usable}; {error}"),
        none: "none",
        no_environments: "none yet: sessions use the Python above",
        create_environment: "belljar env create (the first command that needs `default` builds it too)",
        session_works: |start, python, environment, warm| {
            format!(
                "1 + 1 is 2, after {start} ms ({python}, environment {environment}; the template started once, in {warm} ms)"
            )
        },
        session_silent: |seconds| format!("no response after {seconds} s"),
        session_fails: |why, python, environment| {
            format!("cannot run: {why} ({python}, environment {environment})")
        },
        gvisor_works: |start| {
            format!("1 + 1 is 2 in a kernel of its own, after {start} ms: `--walls gvisor` works")
        },
        gvisor_missing: "`runsc` is not installed: `--walls gvisor` does not work",
        install_gvisor: "for untrusted tenants: install gVisor, https://gvisor.dev/docs/user_guide/install",
        containers: "containers",
        containers_work: "the container engine answers and can limit containers: `--image` works",
        containers_remedy: "for `--image`: start Docker or Podman, or set DOCKER_HOST",
        fix_above: "fix the missing requirements above first",
        report_log: "otherwise: report the output of: BELLJAR_LOG=debug belljar exec '1 + 1'",
    },
    env: EnvTexts {
        removed: |name| format!("Removed environment `{name}`"),
        building: |name| format!("Building environment `{name}`"),
        seconds: |seconds, line| format!("{seconds:>6.1} s  {line}"),
        ready: |name, seconds, python, packages| {
            format!(
                "Environment `{name}` is ready after {seconds:.1} s: CPython {python}, {packages} packages"
            )
        },
        warning: |error| format!("warning: {error}"),
        none_yet: "No environments yet. Run `belljar env create` to build the default one",
        head_name: "NAME",
        head_packages: "PACKAGES",
        head_preload: "PRELOAD",
        head_image: "IMAGE",
        name: "name",
        preload: "preload",
        fonts: "fonts",
        visible: "visible",
        image: "image",
        engine: "engine",
        local_docker: "the local Docker",
        packages: "packages",
        none: "none",
        requirements_unreadable: |path| format!("cannot read the requirements in `{path}`"),
        requirements_unusable: |path| format!("cannot use the requirements in `{path}`"),
        requirement_is_option: |line, text| {
            format!(
                "line {line} is an option (`{text}`), and only packages are supported\nhint: list the packages, and set indexes in uv's own configuration"
            )
        },
        requirements_cut: "the last line ends with `\\`, and no line follows\nhint: add the missing line, or remove the `\\`",
        step_waiting: "waiting for another belljar that builds or removes an environment",
        step_venv: "making the virtual environment",
        step_versions: "finding versions for the packages",
        step_installing: "downloading and installing the packages",
        step_compiling: "compiling the packages to bytecode",
        step_importing: "importing the preload list once",
        step_no_font: "note: no font that draws Chinese was found, in the packages or on this host",
        step_writing: "writing it to disk",
    },
    service: ServiceTexts {
        similar_tenant: |name, other| {
            format!(
                "no such tenant: `{name}`; there is `{other}`\nhint: `--new-tenant` creates a tenant with a similar name"
            )
        },
        new_tenant: |name| format!("[new tenant `{name}`]"),
        no_such_tenant: |name| {
            format!("no such tenant: `{name}`\nhint: `belljar tenants list` lists all tenants")
        },
        key_once: "[API key, not shown again:]",
        no_such_key: |prefix| {
            format!(
                "no valid key has the prefix `{prefix}`\nhint: `belljar keys list` lists all keys"
            )
        },
        no_data: |directory| format!("[no keys and no tenants in {directory}]"),
        revoked: |time| format!("revoked {time}"),
        valid: "valid",
        expired: "expired",
        head_key: "key",
        head_tenant: "tenant",
        head_scopes: "scopes",
        head_created: "created",
        head_expires: "expires",
        head_used: "last used",
        head_state: "state",
        head_quotas: "quotas",
        head_quota: "quota",
        head_limit: "limit",
        head_used_today: "used today",
        head_time: "time",
        head_actor: "actor",
        head_action: "action",
        head_detail: "detail",
    },
    bench: BenchTexts {
        bare_fork: "fork of the template + namespaces + mounts",
        jupyter: "jupyter kernel + imports",
        needs_jupyter: "needs `--jupyter PYTHON`",
        pipe: "exec over a pipe",
        no_filters: "without seccomp and Landlock",
        cell: "x=1 in the session",
        program: "fork and exec by a shell in the session",
        no_checkpoints: "without checkpoints",
        pickle: "new session, same data from a pickle",
        write: "write + fsync",
        read: "read, from cache",
        save_and_load: "save and load",
        uv: "uv pip install --target, from its cache",
        bare_tool: "the same imports and cell by the bare tool",
        empty_sandbox: "empty sandbox of `runsc`",
        own_pooled: "pooled session of Belljar's own walls",
        own_cell: "x=1 in a session of Belljar's own walls",
        grace: "grace after an interrupt",
        skipped: |why| format!("skipped: {why}"),
    },
    errors: ErrorTexts {
        mark: "error:",
        environment_name: |name| {
            format!(
                "`{name}` cannot be the name of an environment\nhint: use 1 to 64 of `a-z`, `0-9`, `.`, `_`, `-`, starting with a letter or a digit"
            )
        },
        environment_is_image: |name| {
            format!(
                "environment `{name}` is a container image: Belljar cannot add packages to it\nhint: build an image that has them, and create an environment from it"
            )
        },
        environment_exists: |name| {
            format!(
                "environment `{name}` exists already\nhint: choose another name, or run `belljar env remove {name}` first"
            )
        },
        environment_not_found: |name, known| {
            format!(
                "there is no environment `{name}` (known: {known})\nhint: run `belljar env create {name}`, or see `belljar env list`"
            )
        },
        environment_broken: |name, reason| {
            format!(
                "environment `{name}` cannot be used: {reason}\nhint: run `belljar env remove {name}`, then create it again"
            )
        },
        uv_missing: |reason| {
            format!(
                "environments are built with `uv`, and {reason}\nhint: install it with `pip install uv` or your package manager, or set `BELLJAR_UV` to its path"
            )
        },
        uv_failed: |step, status, output| {
            format!("could not {step}: `uv` ended with {status} and printed:\n{output}")
        },
        no_python: "no CPython 3.10 or later was found in `PATH`\nhint: install one (with your package manager, or `uv python install 3.12`), or name one with `--python PATH`",
        python_missing: |path, reason| {
            format!(
                "there is no Python at `{path}`: {reason}\nhint: name an interpreter or the directory of a venv"
            )
        },
        python_unsupported: |path, found| {
            format!(
                "`{path}` is {found}, but sessions need CPython 3.10 or later\nhint: name another interpreter with `--python PATH`"
            )
        },
        package_invalid: |package, reason| {
            format!(
                "`{package}` is not a package requirement: {reason}\nhint: write it like `numpy` or `numpy>=2`"
            )
        },
        module_invalid: |module| {
            format!(
                "`{module}` is not the name of a Python module\nhint: write it like `matplotlib.pyplot`"
            )
        },
        preload: |output| {
            format!(
                "a module of the preload list cannot be imported, so the environment was not created: {output}\nhint: name the missing package, or leave the module out of `--preload`"
            )
        },
        limits: |why| {
            format!(
                "this host cannot enforce the limits of a session: {why}\nhint: `belljar doctor` shows what is missing. An ordinary user needs cgroup version 2 and a systemd scope (`systemd-run --user --scope -p Delegate=yes …`); a container needs the settings in docs/operations.md"
            )
        },
        walls: |why| {
            format!(
                "the walls could not be raised: {why}\nhint: `belljar doctor` shows what this host lacks"
            )
        },
        template: |environment, why| {
            format!("the template of environment `{environment}` did not start: {why}")
        },
        session: |why| {
            format!(
                "the session could not be started: {why}\nhint: `belljar doctor` checks whether this host has what sessions need"
            )
        },
        ended: |why| format!("the session has ended ({why})\nhint: start a new session"),
        busy: "the session is busy with another cell\nhint: wait for the cell, or interrupt it",
        no_checkpoint: |checkpoint| {
            format!("no such checkpoint: {checkpoint}\nhint: list the checkpoints of the session")
        },
        too_many_checkpoints: |limit| {
            format!(
                "the session already has {limit} named checkpoints, the maximum\nhint: reuse one of their names, or forget one"
            )
        },
        not_checkpointed: |why| format!("the checkpoint could not be made: {why}"),
        fork: |why| format!("the session could not be forked: {why}"),
        command: |why| format!("the command could not be run: {why}"),
        unresponsive: "the session did not answer in time",
        cell_too_large: |bytes, limit| {
            format!("the cell is too large: {bytes} bytes, at most {limit}")
        },
        file_too_large: |path, bytes, limit| {
            format!("`{path}` is too large: {bytes} bytes, at most {limit} can be transferred")
        },
    },
};
