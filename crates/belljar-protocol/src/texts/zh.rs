//! Simplified Chinese, in the wording of RES-1.

use super::catalogue::{
    BenchTexts, DemoTexts, DoctorTexts, EnvTexts, ErrorTexts, KernelTexts, OutcomeTexts,
    PromptTexts, ReplyMarks, RunTexts, ServiceTexts, SessionTexts, SettingTexts, SettingsTexts,
    Texts, ToolTexts, quoted,
};

pub(super) static TEXTS: Texts = Texts {
    outcome: OutcomeTexts {
        headline_success: "代码执行成功，输出结果完整，任务完成",
        headline_failure: "代码执行失败，代码抛出异常，根据报错信息进行调试",
        headline_timeout: "代码执行超时，强制退出执行，调整超时时间后重试",
        headline_crashed: "代码执行崩溃，进程异常退出，根据报错信息进行调试",
        output: "终端输出：",
        source: "原始代码：",
        error: "报错信息：",
        time_limit: |seconds| format!("超出限制的时间：{seconds} 秒"),
        exit_code: |code| format!("退出状态码：{code}"),
        files: "新建或修改的文件：",
        left_out: "未包含的内容：",
        next: "下一步：",
        no_walls: "此代码在没有隔离的情况下运行（--walls=none）：直接在宿主机上，以其用户身份",
        no_output: "（没有输出；请打印需要查看的内容）\n",
        failed: "代码失败了。请找出原因，并运行修正后的代码。",
        stopped: |seconds| {
            format!("运行 {seconds} 秒后被停止。请找更快的做法：不做重复计算，用循环代替递归。")
        },
        missing_package: |package| {
            format!(
                "该模块尚未安装，可由软件包 `{package}` 提供：请在代码首行写上 `# requires: {package}` 后重新运行。"
            )
        },
        exception: "上面的异常来自代码本身；请修改所指出的行后重新运行。",
        syntax: "代码未能通过编译，没有执行任何语句；请修正语法后重新运行。",
        sys_exit: |code| format!("代码调用了 sys.exit({code})；如需继续执行，请去掉该调用。"),
        exited: |code| format!("进程以退出码 {code} 结束；请不要调用 os._exit。"),
        exited_by_signal: |code, signal| {
            format!("进程以退出码 {code} 结束（128 + {signal}）；请不要调用 os._exit。")
        },
        interrupted: "调用方中断了该单元。",
        wall_time: |seconds| {
            format!("该单元运行超过 {seconds} 秒；请减少单次工作量，或申请更长的时限。")
        },
        cpu_time: |seconds| format!("该单元使用的 CPU 时间超过 {seconds} 秒；请减少单次工作量。"),
        memory: |mib| {
            format!(
                "会话用尽了 {mib} MiB 内存并被终止；请减少一次载入的数据，使用更小的类型或分块处理。"
            )
        },
        signal: |name, meaning| {
            format!("进程被 {name}{meaning} 终止；请避免引发该信号的本地调用。")
        },
        invalid_memory_access: "（非法内存访问）",
        abort: "（主动中止）",
        arithmetic_fault: "（算术错误）",
        illegal_instruction: "（非法指令）",
        killed: "（强制结束）",
        forbidden_system_call: "（被禁止的系统调用）",
        output_limit: |mib| format!("该单元输出超过 {mib} MiB；请减少打印，或写入文件。"),
        protocol: |detail| {
            format!("进程破坏了与宿主的通道（{detail}）；请不要写入并非自己打开的描述符。")
        },
        variables_kept: "此前单元的变量均已保留。",
        variables_before_first_cell: "变量已恢复到第 1 个单元之前的状态。",
        variables_after_cell: |cell| format!("变量已恢复到第 {cell} 个单元之后的状态。"),
        variables_lost: "所有变量均已丢失：请在新会话中重新定义。",
    },
    prompts: PromptTexts {
        system: "你通过在会话中运行 Python 来完成任务，逐步进行：运行代码，查看输出，继续，直到输出显示出答案后给出答案。\n\
             - 所有计算、计数和字符处理都交给 Python，再小也不要心算。\n\
             - 把任务中的文本和数字原样复制到代码中。\n\
             - 打印重要的值。答案必须以你看到的输出为依据。\n\
             - 先用一行说明所要求的内容：一个值还是多个值，是什么，用什么单位。然后写代码，代码后不要解释。\n\
             - 代码出错时，阅读错误，找到原因，修改代码。\n\
             - 答案给出所要求的内容，使用输出中的确切值。\n",
        installed: |packages| format!("- 已安装：{packages}。\n"),
        example_task: "任务：三周有多少秒？",
        example_thought: "要求：一个数，秒数。",
        task: |task| format!("任务：{task}"),
        files: "\n\n工作目录中的文件：",
        file_begins: "，开头为：\n",
        parent: |task, steps| {
            format!(
                "你从较早的任务继续，使用它的会话：其变量和文件都在。\n它的任务是：{task}\n{steps}"
            )
        },
        parent_answer: |answer| format!("\n它的答案是：{answer}"),
        output_of_cell: |cell| format!("第 {cell} 个单元的输出：\n"),
        result_of_tool: |tool| format!("{tool} 的结果：\n"),

        native_instructions: "通过调用工具来行动。要运行 Python，请调用 `python`；变量在多次调用之间保留。互不依赖的调用可以放在同一条回复中。\
             不要把代码写成普通文本。看到答案所依据的结果之后再给出答案，并且该回复中只给出答案。",
        json_instructions: "只回复一个 JSON 对象，不要有其他内容。字段：\n\
             - `thought`：简短的思考。\n\
             - `action`：`execute_code`（运行新代码）、`debug_error`（出错后运行修正的代码）或 \
             `provide_answer`（给出答案并结束）。\n\
             - `code`：Python 代码；仅用于 `execute_code` 和 `debug_error`。用 print 输出需要看到的内容。变量在各步之间保留。\n\
             - `final_answer`：文本；仅用于 `provide_answer`，且在看到结果之后。",
        tags_instructions: "每条回复写一个动作，用标签表示，每个标签单独占一行。\n\
             要运行 Python，请把代码写在 <execution-code> 中。用 print 输出需要看到的内容。变量在各步之间保留。如需未安装的库，\
             请在其前用 <pip-dependencies-to-install> 写出库名，用逗号分隔。\n\
             写完 </execution-code> 就停止：结果会发送给你。看到结果之后，把答案写在 <final-answer> 中。",
        fenced_instructions: "要运行 Python，请写一个以 ```python 开头、以 ``` 结尾的代码块。用 print 输出需要看到的内容。变量在各步之间保留。\
             写完代码块就停止：输出会发送给你，不要自己编写输出。\n\
             看到答案所依据的输出之后，写一行以 FINAL: 开头的文字，其后是答案。一条回复只能有代码块或答案之一，不能两者都有。",
        json_tools: "`action` 也可以是工具名，并用 `arguments` 给出参数：\n",
        tags_tools: "要调用其他工具，请写 <tool name=\"工具名\">、JSON 对象形式的参数和 </tool>。工具：\n",
        fenced_tools: "要调用其他工具，请写以 ``` 加工具名开头的代码块，其中是 JSON 对象形式的参数。工具：\n",
        native_form: "请调用一个工具，或给出答案。",
        forms: |forms| format!("请使用以下两种形式之一：\n{forms}"),

        reply_empty: "你的回复是空的，没有执行任何内容。",
        reply_truncated: "你的回复因长度限制在完成之前被截断，没有执行任何内容。请写短一些：分成更小的步骤。",
        reply_without_action: |near| {
            format!("你的回复中没有找到动作，因此没有执行任何内容。回复开头：«{near}»")
        },
        reply_json: |expected, near| {
            format!(
                "无法读取回复中的 JSON：在 «{near}» 附近应为 {expected}。字符串中的引号请写成 \\\"，换行请写成 \\n。"
            )
        },
        reply_without: |field| format!("你的回复缺少 `{field}`。"),
        action_without: |action, field| format!("`{action}` 需要 `{field}`，但它缺失或为空。"),
        unknown_action: |given, known| {
            format!(
                "没有名为 `{given}` 的动作。可用的动作：{}。",
                quoted(known, "、")
            )
        },
        unknown_tool: |given, known| {
            format!(
                "没有名为 `{given}` 的工具，因此没有调用。可用的工具：{}。",
                quoted(known, "、")
            )
        },
        answer_too_early: "答案未被采纳，因为它与其他调用同时给出。请先查看这些调用的结果，再回答。",

        undefined_name: |name, line| format!("`{name}` (行 {line})"),
        undefined_names: |names| {
            format!("代码未运行：{names} 没有定义。请补上缺少的内容后重新运行全部代码。")
        },
        answer_without_code: "答案未被采纳，因为还没有运行任何代码。请先验证：运行代码计算并打印结果。",
        answer_after_failure: "答案未被采纳，因为最后一段代码失败了，没有输出显示该答案。请修正代码并运行，然后按其输出回答。",
        review: |task| {
            format!(
                "现在检查答案：运行另一段代码，用另一种方法（普通循环）计算同样的内容并打印。任务是：{task}"
            )
        },
        answer_unseen: |values, task| {
            format!(
                "答案未被采纳：其中的 {values} 没有出现在任何输出中。请运行另一段代码，用普通循环计算并打印。任务是：{task}"
            )
        },
        answer_doubted: |doubts, task| {
            format!(
                "答案尚未被采纳：{doubts}。请运行能确认这一点的代码，并按其输出回答；如果数据无法回答任务，请说明原因；如果答案本来就正确，请重复它。任务是：{task}"
            )
        },
        doubt_nothing_run: "没有运行任何代码",
        doubt_last_call_failed: "最后一段代码失败了",
        doubt_unseen: |value| format!("没有输出显示 `{value}`"),
        doubt_written_in_code: |value| {
            format!("`{value}` 是直接写在打印它的代码中的，不是计算出来的")
        },
        doubt_file_missing: |file| format!("没有文件 `{file}`"),
        doubt_data_not_read: "没有代码读取任务的文件",
        doubt_name_omitted: "任务问的是哪一个，答案没有给出数据中的名称",
        doubt_number_omitted: "任务要求一个数字，答案中没有",
        doubt_no_total: "任务要求总和，但打印该值的代码没有求和",
        doubt_no_average: "任务要求平均值，但打印该值的代码没有计算平均值",
        doubt_no_median: "任务要求中位数，但打印该值的代码没有计算中位数",
        doubt_not_distinct: "任务要求不同的值，但代码没有去重",
        doubt_not_largest: "任务要求最大的，代码却在找最小的",
        doubt_not_smallest: "任务要求最小的，代码却在找最大的",
        doubt_column_missing: |column| format!("任务提到列 `{column}`，数据中没有该列"),
        doubt_column_exists: |column| format!("数据中有列 `{column}`"),
        doubt_ignored: |term| format!("任务提到 `{term}`，但代码和结果所在的行都没有它"),
        doubt_not_converted: |from, to| {
            format!("数据的单位是 {from}，任务要求 {to}，但没有代码进行换算")
        },
        done_before: |step| {
            format!(
                "第 {step} 步已经做过完全相同的事，结果也相同。如果结果就是所要求的内容，请现在给出答案；否则请换一种做法。"
            )
        },
        failed_before: |step| {
            format!("第 {step} 步已经做过完全相同的事，并以同样的方式失败。请换一种做法。")
        },
        keeps_failing: |steps, more| {
            format!(
                "最近 {steps} 步都失败了。不要再用同样的做法：查看这些错误，找出共同的原因，换一个方向。{more}"
            )
        },
        skip_in_plan: "无法完成的任务请在计划中标记为 skipped。",
        repetition: |variables, repeated| {
            format!(
                "你多次做了同样的事，结果相同，因此对话已回退到那之前。{variables}你重复的内容：{repeated}\n请换一种做法，或用已有的内容回答。"
            )
        },
        failed_again: |error, variables| {
            format!(
                "之前的代码两次以 `{error}` 失败，已被撤回。{variables}请只使用普通循环和标准库。"
            )
        },
        showed_nothing: |variables| {
            format!(
                "之前的代码运行了两次，没有显示所要求的内容，已被撤回。{variables}请只使用普通循环和标准库。"
            )
        },
        variables_restored: "变量已恢复到当时的状态。",
        variables_current: "变量保持当前状态。",
        earlier_steps: "较早的步骤（已缩短）：",
        hidden_steps: |steps| format!("\n（之前还有 {steps} 步）"),
        your_plan: "\n\n你的计划：\n",
        session_variables: "\n\n会话中的变量：",
        last_step: "这是最后一步：请现在给出你目前最好的答案。",
        steps_left: |steps| format!("还剩 {steps} 步：请运行能显示答案的代码，或给出答案。"),
        budget_nearly_used: "预算即将用完：请尽快给出答案。",
        bytes_left_out: |bytes| format!("\n[… 省略 {bytes} 字节 …]\n"),
        all_in_file: |file| format!("\n[完整内容在文件 {file} 中]"),

        host_restarted: "执行过程中主机重新启动。该操作是否已生效未知：再次执行前请先检查。",
        cell_differs: "单元运行过程中主机重新启动。重新运行时它调用的工具与第一次不同，因此已放弃：变量与运行之前相同。",
        calls_made: "\n它已经调用：",
        call_not_done: "未执行",
        call_unknown: "是否已生效未知",
        call_done: "已执行",
        more_calls: |calls| format!("\n- 以及另外 {calls} 个"),
        cell_edited: |code| format!("代码在运行前被人修改。实际运行的是：\n```python\n{code}\n```"),
        cell_feedback: |text| format!("代码未运行：有人先查看了代码，并说：{text}"),
        cell_rejected: "代码未运行：有人查看后不允许运行。请换一种方法。",
        cell_held_back: "代码未运行，因为它之前的代码没有得到允许。",
        cell_given_up: "任务已停止，但单元没有响应；会话已结束。",
        call_rejected: "此调用没有得到允许",
        call_feedback: |text| format!("此调用没有得到允许，原因：{text}"),
        calls_used_up: |most| format!("此任务的代码最多可调用工具 {most} 次，已用完"),
        call_lost: "执行此调用时主机重新启动：是否已生效未知",
        names_not_kept: |names| format!("较早任务中的以下名称没有保留：{}。", names.join("、")),
        session_new: "会话是新的：较早的任务没有留下变量，文件只有任务自带的。",
        session_run_again: |cells| {
            format!(
                "较早任务的会话已通过重新运行其 {cells} 个单元重建。依赖时间或随机数的内容可能不同。"
            )
        },
        session_not_run_again: |held| {
            format!(
                "会话是新的：较早任务的代码每次运行都须经人批准，因此没有重新运行其单元。所有变量都已丢失，文件只剩任务自带的。之前有：{held}"
            )
        },
        session_loaded: "主机重新启动。会话已重新载入：变量和文件都在；线程、打开的文件和连接不在。",
        session_loaded_without: |names| {
            format!(
                "主机重新启动。会话已重新载入；以下名称没有恢复：{}。线程、打开的文件和连接已丢失。",
                names.join("、")
            )
        },
        session_lost: |held| {
            format!(
                "会话已丢失，并启动了新的会话：所有变量都已丢失，文件只剩任务自带的。之前有：{held}"
            )
        },

        wrong_calls: "代码未运行：其中的工具调用有误。",
        wrong_call_line: |line| format!("\n- 第 {line} 行："),
        no_tools: |tool| format!("没有 `tools.{tool}`；本会话没有工具"),
        no_such_tool: |tool, known| format!("没有 `tools.{tool}`；可用的有：{known}"),
        no_parameter: |name| format!("没有参数 `{name}`"),
        too_many_arguments: |given| format!("{given} 个参数过多"),
        two_values: |name| format!("`{name}` 有两个值"),
        missing_arguments: |names| format!("缺少 {names}"),
        call_form: |signature| format!("；正确形式为 `tools.{signature}`"),
        wrong_calls_again: "\n请改正后重新运行全部代码。",

        branches: |tool, most, check| {
            format!(
                "不确定哪种做法正确时，`x = tools.{tool}([a, b])` 可尝试最多 {most} 个值：\
                 对每个值，单元的其余部分在会话的副本中运行，返回第一个使以下条件在结束时成立的值：`{check}`。\
                 如果都不成立，则报错并说明每个值的结果。调用时不要用 `await` 或线程。\
                 在同一单元中，调用之后不要再调用其他工具，文件名不要带 `/workspace/`。\n"
            )
        },
        branch_count: |most, given| format!("可尝试 1 到 {most} 个候选值，不能是 {given} 个"),
        branch_stopped: |milliseconds| format!("运行 {milliseconds} 毫秒后被停止"),
        branch_memory: "内存用尽",
        branch_output: "输出过多",
        branch_signal: |name| format!("被 {name} 终止"),
        branch_exit: |code| format!("以 {code} 退出"),
        branch_unfinished: "没有运行到结尾",
        check_false: "条件不成立",
        check_failed: |why| format!("条件出错：{why}"),
        none_accepted: "没有候选值被接受",
        not_forked: |why, tool| {
            format!(
                "没有尝试：{why}。调用 `tools.{tool}` 时不要用 `await` 或线程，也不要有其他未完成的调用"
            )
        },
        no_calls_in_branch: "在分支中不能调用工具，也不能再分支：请在 `tools.branch` 之前或在下一个单元中调用",

        tool_purpose: "工具调用的目的，即调用该工具的具体场景或问题。",
        tools_module: "模块 `tools` 无需导入即可使用，其中有主机提供的函数：\n",
        tools_colon: "：",
        tools_calling: "用 `tools.NAME(...)` 调用：调用会阻塞，返回 Python 值。同时调用多个：\
             `await asyncio.gather(tools.a(...), tools.b(...))`；代码中用了 `await` 时，每个调用都要 await。\n\
             在 Python 中处理结果，只打印重要的内容，不要全部打印。显示为 ⟦…⟧ 的结果保存在主机上：请把该标记写入答案中相应的位置。\n",
        tools_more: |tools| format!("- 另有 {tools} 个：`dir(tools)`\n"),
        tools_help: "`help(tools.NAME)` 显示函数的作用和参数：首次调用前请先查看。\n",
        python_tool: "在会话中运行一个 Python 单元，返回其打印内容、最后一行的值以及出现的错误。变量、导入和文件在单元之间保留。",
        python_code: "Python 源代码。",
        answer_tool: "给出答案并结束。请在看到答案所依据的结果之后单独调用。",
        answer_text: "答案，使用确切的值。",
        compute_tool: "立即精确计算一个 Python 表达式。凡是字符、数字或顺序必须准确时都应使用：字符串的反转、切片、计数、分割，算术，排序。\
                 不能使用语句、导入、文件和网络。可以直接使用 `math`；`last_result` 是上一次调用的值。例如：'a,b,c'.split(',')[1]",
        compute_code: "一个 Python 表达式。",
        compute_about: "计算的内容。",
        compute_taken_away: |tool, errors, calls| {
            format!("`{tool}` 已停用：{calls} 个表达式中有 {errors} 个出错。请改用 `python`。")
        },
        read_file_tool: "读取工作目录中的文本文件。文件超过大小限制时只返回大小和行数。",
        read_file_path: "相对于工作目录的路径。",
        read_file_encoding: "文本编码：utf-8、latin-1、ascii 或 utf-16。",
        read_file_size: "读取的最大文件大小（MB）。",

        plan_tool: "必须调用作为计划推理过程的思考与记录，然后再调用其他工具；任务状态变化或新增任务时再次调用。每次发送完整的计划树。\
             返回变更总结、Markdown 清单、状态统计和可执行的任务。宜增加任务、修改状态，不要删除任务节点。依赖用任务名称表示。",
        plan_changes: "变更总结",
        plan_checklist: "Markdown 清单",
        plan_statistics: "状态统计",
        plan_ready: "可执行的任务",
        plan_counts: |total, counts, percent| {
            format!("共 {total} 项：{}；完成率 {percent}%", counts.join("，"))
        },
        plan_none_ready: "无",
        plan_names_ready: |names| names.join("、"),
        plan_made: "✅ 首次创建计划树",
        plan_added: |names| format!("🆕 新增任务：{}", names.join("，")),
        plan_removed: |names| format!("🗑️ 删除任务：{}", names.join("，")),
        plan_status: |changes| format!("🔄 状态变更：{}", changes.join("，")),
        plan_status_change: |name, from, to| format!("{name}（{from} → {to}）"),
        plan_moved: |changes| format!("📌 层级调整：{}", changes.join("，")),
        plan_move: |name, from, to| format!("{name}（父任务：{from} → {to}）"),
        plan_root: "根节点",
        plan_unchanged: "ℹ️ 计划树无明显变更",
        plan_task: |name, id| format!("**{name}**（ID：{id}）"),
        plan_task_status: |status| format!(" | 状态：{status}"),
        plan_task_about: |text| format!("说明：{text}"),
        plan_task_result: |text| format!("结果：{text}"),
        task_pending: "待执行",
        task_processing: "正在执行",
        task_completed: "执行成功",
        task_failed: "执行失败",
        task_retry: "重试",
        task_skipped: "已跳过",
    },
    replies: ReplyMarks {
        output: &[
            "输出",
            "执行结果",
            "运行结果",
            "观察",
            "终端输出",
            "输出结果",
        ],
        alternative: &["或者", "另一种"],
        answer: &["最终答案", "答案"],
    },
    run: RunTexts {
        model_writing: "模型正在书写",
        running: "正在运行",
        retrying: |why, seconds| format!("[{why}；{seconds:.1} 秒后重试]"),
        output_truncated: "[输出过长，此处截断]",
        image: |media_type, bytes| format!("[图像：{media_type}，{bytes} 字节]"),
        step: |step, seconds, tokens| format!("── 第 {step} 步 · {seconds:.1} 秒 · {tokens} 词元"),
        rolled_back: "[检测到重复，已回滚]",
        more_calls: "[更多调用]",
        accepted: "已接受",
        approved: "[已批准]",
        approved_rest: "[已批准，本次任务中同类请求不再询问]",
        edited: "[代码已由人工修改：]",
        not_approved: "[未批准]",
        not_approved_because: |why| format!("[未批准：{why}]"),
        more_thought: |lines| format!("[还有 {lines} 行思考]"),
        plan: |goal| format!("计划：{goal}"),
        cost: |money| format!(" · 费用 {money:.4}"),
        totals: |steps, tokens| format!(" · {steps} 步 · {tokens} 词元"),
        total_time: |totals, seconds| format!("── {totals} · {seconds:.1} 秒"),
        answer: "── 答案",
        answer_unverified: "── 答案（未证实）",
        last_output: "── 最后的输出（不是答案）",
        files: |names, directory| format!("文件：{names}，位于 {directory}"),
        not_kept: |path, why| format!("未保留：{path}（{why}）"),
        more_not_kept: |files| format!("还有 {files} 个文件未保留"),
        not_answered: |why| format!("[没有得到答案：{why}]"),
        unverified: |doubt| format!("[未证实：{doubt}]"),
        computed_in_cell: |value, cell, expression, how| {
            format!(
                "{value}：由单元 {cell} 的 `{expression}` 计算得出{how}（说明来源，不说明正确）"
            )
        },
        from_files: |files| format!("，数据来自 {files}"),
        printed_by_cell: |value, cell, rounded| {
            format!("{value}：由单元 {cell} 打印{rounded}（说明来源，不说明正确）")
        },
        result_of_step: |value, step, rounded| {
            format!("{value}：第 {step} 步的结果{rounded}（说明来源，不说明正确）")
        },
        rounded: "，已取整",
        weak_other_row: "，但属于另一行",
        weak_other_column: "，但在另一列",
        weak_other_measure: "，但是另一种统计量",
        weak_other_unit: "，但单位不同",
        weak_outdated: "，但之后的单元改动了数据",
        weak_incidental: "，但只是其他内容的一部分，如行号或日期",
        given_in_task: |value| format!("{value}：任务中已给出"),
        file_of_run: |value| format!("{value}：运行的文件"),
        written_in_code: |value, cell| {
            format!("{value}：直接写在单元 {cell} 的代码中，不是计算出来的")
        },
        seen_nowhere: |value| format!("{value}：没有出现在任何地方"),
        heading_answer: "答案",
        heading_unverified: "答案（未证实）",
        heading_not_answered: |why| format!("没有得到答案：{why}"),
        heading_last_output: "最后的输出（不是答案）",
        heading_record: "记录",
        record_run: "运行",
        record_times: "首个和末个事件",
        record_model: "模型",
        record_use: "用量",
        record_isolation: "隔离",
        record_versions: "环境",
        record_installed: "单元安装的包",
        record_files: "任务文件",
        record_made: "运行产生的文件",
        record_approvals: "审批",
        decision_open: "未决定",
        decision_accepted: "已批准",
        decision_accepted_rest: "已批准，本次任务中同类请求不再询问",
        decision_edited: "换成了人写的代码",
        decision_rejected: "已拒绝",
        decision_feedback: |text| format!("已拒绝：{text}"),
        signed_page: |key| {
            format!("由密钥 {key} 签名。用 `belljar runs verify FILE` 检查页面是否与签名时一致。")
        },
        signature_holds: "页面与签名时一致",
        signature_key: |key| format!("[签名密钥：{key}。请与服务的密钥比较，或使用 --key KEY]"),
        signature_of_other_key: |key| {
            format!("页面有签名，但密钥是另一个：{key}\n提示：页面是别人写的")
        },
        reason_answered: "已回答",
        reason_unverified: "未证实",
        reason_model_failed: "对模型的请求失败",
        reason_not_understood: "无法理解模型的回复",
        reason_repetition: "任务陷入重复",
        reason_budget: |part| format!("预算不足以进行下一步（{part}）"),
        reason_stopped: "已停止",
        ending: "[正在结束任务]",
        interrupted: "[单元已中断；再按一次 Ctrl-C 结束任务]",
        waits: |id| {
            format!(
                "[任务等待批准：用 `belljar runs approve {id} --accept`、`--reject`、`--feedback TEXT` 或 `--edit FILE` 恢复运行]"
            )
        },

        approval: |id, question| format!("── 批准 {id}：{question}"),
        may_run: "运行此单元？",
        may_call: |tool| format!("允许代码调用 {tool}？"),
        finding: |capability, what, line| format!("   {capability}: {what}（第 {line} 行）"),
        cell_choices: "[a] 运行  [d] 运行，且本次任务不再询问同类代码  [e] 编辑  [f] 反馈  [r] 拒绝  [q] 结束任务：",
        call_choices: "[a] 调用  [d] 调用，且本次任务不再询问此工具  [f] 反馈  [r] 拒绝  [q] 结束任务：",
        no_such_choice: |typed| format!("[没有选项 `{typed}`：请输入方括号中的字母，然后按回车]"),
        feedback: "反馈：",
        edited_code: "── 编辑后的代码：",
        edited_choices: "[a] 运行  [e] 再次编辑  [r] 放弃：",

        task_empty: "任务为空",
        check: |error| format!("`--check`：{error}\n提示：例如 `len(rows) == 3`"),
        file_unreadable: |path, error| {
            format!("`--put {path}`：{error}\n提示：请检查路径（相对于当前目录）和读取权限")
        },
        file_not_regular: |path| {
            format!("`--put {path}`：既不是普通文件，也不是只含普通文件的目录")
        },
        file_name_invalid: |path| format!("`--put {path}`：文件名不是有效的 UTF-8"),
        file_name_twice: |path| format!("`--put {path}`：已有同名文件\n提示：请重命名其中一个"),
        out_exists: |path, files| {
            format!(
                "`--out`：{files} 个文件已存在，未被替换，例如 `{path}`\n提示：请换一个目录，或加上 `--overwrite`"
            )
        },
        out_too_many: |files| {
            format!("工作区的文件超过 {files} 个，无法全部复制\n提示：请让代码写成压缩包")
        },

        no_such_run: |id| format!("没有任务 `{id}`\n提示：`belljar runs list` 列出所有任务"),
        ambiguous_run: |id, runs| {
            format!("任务编号 `{id}` 不唯一：有 {runs} 个任务以它开头\n提示：请给出更长的编号")
        },
        no_first_event: "任务的日志没有第一个事件",
        no_approval: |id| format!("任务 `{id}` 没有待批准的请求"),
        several_approvals: |pending, ids| {
            format!("有 {pending} 个待批准的请求\n提示：用 `--only` 选择其一：{ids}，或 `all`")
        },
        no_such_approval: |approval, id| {
            format!("没有待批准的请求 `{approval}`\n提示：`belljar runs approve {id}` 列出它们")
        },
        head_run: "任务",
        head_started: "开始时间",
        head_state: "状态",
        head_steps: "步数",
        head_cost: "费用",
        head_task: "内容",
        state_answered: "已回答",
        state_unverified: "未证实",
        state_ended: "已结束",
        state_waits: "待批准",
        state_running: "运行中",
        state_interrupted: "已中断",
        no_runs_yet: |directory| format!("[{directory} 中没有任务]"),
        more_runs: |id| format!("[更早的任务：`belljar runs list --before {id}`]"),
        run_deleted: |id| format!("[已删除任务 {id} 及其文件和产物]"),
        run_driven: |id| format!("任务 `{id}` 正在运行\n提示：请先在启动它的地方按 Ctrl-C 结束它"),

        replay_prompts_differ: |recorded, current| {
            format!("[任务记录时的提示词不同（{recorded}，现为 {current}）：请求可能不一致]")
        },
        replay_would: |step, what| {
            format!("第 {step} 步不一致：记录的是模型请求，现在任务会{what}")
        },
        replay_call_tools: "调用工具",
        replay_roll_back: "回滚",
        replay_end: "结束",
        replay_other: "做其他事",
        replay_differs: |step, byte| format!("第 {step} 步从第 {byte} 字节起不一致："),
        replay_recorded: |text| format!("  记录：{text}"),
        replay_now: |text| format!("  现在：{text}"),
        replay_identical: |requests| format!("{requests} 个请求，全部一致"),
        reproducing: "正在新会话中重新运行代码两次",
        reproduced_so_far: |done, all| format!("正在重新运行代码：{done} / {all} 步"),
        head_value: "值",
        head_verdict: "结果",
        head_where: "来源",
        head_now: "现在",
        in_cell: |cell| format!("单元格 {cell}"),
        in_step: |step| format!("第 {step} 步"),
        in_file: "文件",
        verdict_identical: "一致",
        verdict_changed: "已改变",
        verdict_not_deterministic: "每次不同",
        verdict_not_run: "未重新运行",
        reproduced_part: |identical, all, what| format!("{what}：{all} 个中 {identical} 个一致"),
        reproduced_nothing: "该运行没有可以重新运行的代码",
        reproduced_values: "值",
        reproduced_files: "文件",
        reproduced_cells: "单元格",

        time_all: "总计",
        time_model: "模型",
        time_tools: "工具",
        time_other: "其他",
        cost_unknown: "未知",
        timing: |steps, calls, rollbacks, read, written, cost| {
            format!(
                "{steps} 步，{calls} 次调用，回滚 {rollbacks} 次；输入 {read} 词元，输出 {written} 词元；费用 {cost}"
            )
        },
        timing_head: "步     模型秒    工具秒    输入     输出      费用  工具",
        failed_calls: |calls| format!("（{calls} 次失败）"),
        slowest: |steps| format!("最慢的步骤：{steps}"),
        repeated: |steps, seconds, call| format!("重复于步骤 {steps}（{seconds:.3} 秒）：{call}"),
    },
    session: SessionTexts {
        no_walls: "[--walls=none：代码以你的身份直接在本机运行，没有隔离]",
        allow_needs_walls: "`--allow` 需要隔离：使用 `--walls=none` 时，代码可以使用你的网络\n提示：去掉 `--allow`，或使用 `--walls=full`",
        starting: "正在启动 Python 并导入库",
        installing: "正在安装软件包",
        installed: |packages| format!("[已安装 {packages}]"),
        package_by_library: |package| {
            format!(
                "该模块尚未安装，且本会话不允许安装软件包 `{package}`；可通过 `SessionOptions::packages` 和 `EngineBuilder::packages` 允许。"
            )
        },
        package_by_command: |package| {
            format!(
                "该模块尚未安装，且本会话不允许安装软件包；请以 `--packages {package}` 启动 `belljar`，并在代码首行写上 `# requires: {package}`。"
            )
        },
        package_by_service: |package| {
            format!(
                "该模块尚未安装，且本会话不允许安装软件包 `{package}`；运维人员可用 `belljar serve --packages {package}` 允许，且会话的 `packages.allow` 不得将其排除。"
            )
        },
        network_by_library: |host| {
            format!("本会话不能访问该主机；可通过 `SessionOptions::network` 允许 `{host}`。")
        },
        network_by_command: |host| {
            format!("本会话不能访问该主机；请以 `--allow {host}` 启动 `belljar`。")
        },
        network_by_service: |host| {
            format!(
                "本会话不能访问该主机；创建会话时请在 `network.allow` 中列出 `{host}`。运维人员可用 `belljar serve --allow {host}` 允许。"
            )
        },
        network: |denial| format!("[网络：{denial}]"),
        rest_not_kept: "[输出已截断，其余部分未保留]",
        long_output: |path| format!("[输出很长：会话存续期间，全部内容在 {path}]"),
        long_output_beginning: |path| format!("[输出很长：会话存续期间，开头部分在 {path}]"),
        file: |path, bytes| format!("[文件：{path}（{bytes} 字节）]"),
        not_saved: |name, why| format!("[未保存：{name}（{why}）]"),
        not_restored: |name, why| format!("[未恢复：{name}（{why}）]"),
        file_not_saved: |path, why| format!("[文件未保存：{path}（{why}）]"),
        more_not_saved: |names| format!("[还有 {names} 个名称未保存]"),
        more_not_restored: |names| format!("[还有 {names} 个名称未恢复]"),
        more_files_not_saved: |files| format!("[还有 {files} 个文件未保存]"),
        other_packages: |packages| format!("[软件包不同：{packages}]"),
        image: |path| format!("[图像：{path}]"),
        image_not_shown: |error| format!("[无法显示图像：{error}]"),
        no_code: "没有给出代码",
        code_is_path: |path| {
            format!("`{path}` 像是文件，不是代码\n提示：是不是要用 `--file {path}`？")
        },
        ignores_interrupt: "[单元没有响应中断；正在结束其会话]",
        packages_unnamed: "`--packages any` 不会安装任何软件包：shell 中没有 `# requires:` 行\n提示：写出软件包名称，例如 `--packages humanize,rich`",
        command_lost: |why| format!("无法得知命令如何结束：{why}"),
        command_exit_code: |code| format!("[退出码 {code}]"),
        command_signal: |signal| format!("[被 {signal} 结束]"),
        output_lost: |bytes| format!("丢失了 {bytes} 字节的输出：宿主机用于输出的内存已满"),
        secret_not_set: |name| {
            format!(
                "`--secret {name}`：belljar 自身的环境中没有变量 `{name}`\n提示：请先 export 该变量；其值不会出现在命令行上"
            )
        },
        secret_not_text: |name| format!("`--secret {name}`：变量 `{name}` 的值不是 UTF-8 文本"),
        no_agent: |error| format!("[工具 `ask_agent` 不可用：{error}]"),
        no_runs: |error| format!("[无法运行任务：{error}]"),

        welcome: |version, python, environment| {
            format!("Belljar {version}：Python {python}，环境 {environment}")
        },
        keys: "Ctrl-D 退出，Ctrl-C 中断单元，/help 列出命令。",
        new_session: "[新会话：旧会话的变量和文件已不存在]",
        back: "[已回到 /fork 之前的会话]",
        cannot_go_back: "无法返回：没有用过 `/fork`\n提示：`/fork` 切换到此会话的分叉",
        still_running: "[单元仍在运行；再按一次 Ctrl-C 将结束其会话并丢失变量]",
        in_fork: "[在分叉中：对变量和文件的改动只留在分叉中；/back 放弃分叉]",
        lost_back: "[会话已丢失；已回到 /fork 之前的会话]",
        lost_new: "[会话已丢失；这是新会话：变量和文件已不存在]",
        loading: "正在载入快照",
        loaded: |names, files| format!("[新会话；已恢复名称 {names} 个，文件 {files} 个]"),
        starting_session: "正在启动新会话",
        history_not_saved: |error| format!("[历史记录未保存：{error}]"),

        help_help: "显示此列表",
        help_vars: "列出变量",
        help_files: "列出工作区中的文件",
        help_put: "把本机的文件或目录复制到工作区",
        help_get: "把工作区的文件或目录复制到本机",
        help_checkpoint: "建立带名称的变量检查点",
        help_checkpoints: "列出检查点及其占用的内存",
        help_restore: "按名称或单元恢复检查点的变量；文件不变",
        help_fork: "切换到分叉：带有变量和文件的会话副本",
        help_back: "放弃分叉，回到原来的会话",
        help_save: "把变量和文件的快照写到本机",
        help_load: "从快照启动新会话",
        help_reset: "启动新的空会话",
        help_quit: "退出（或 Ctrl-D）",
        help_end: "!COMMAND 在会话中运行 shell 命令。其余输入都是 Python。空行结束代码块；Tab 补全；Ctrl-C 清除当前行，\n或中断运行中的单元并保留变量。\n",
        no_arguments: |command| format!("`{command}` 不带参数"),
        usage: |form| format!("用法：`{form}`；含空格的名称请加引号"),
        checkpoint_number: |name| {
            format!("`{name}` 不能作为检查点的名称：数字表示单元\n提示：请换一个名称")
        },
        no_such_command: |command, commands| {
            format!("没有命令 `{command}`\n提示：可用的命令：{commands}")
        },
        unclosed_quote: |quote| format!("引号 `{quote}` 没有闭合"),
        no_variables: "[还没有变量]",
        checkpoint_made: |name| format!("[已建立检查点；用 `/restore {name}` 恢复]"),
        no_checkpoints: "[还没有检查点：每个单元之后会建立一个]",
        restored: "[变量已恢复]",
        no_files: "[工作区是空的；/put PATH 把文件复制进来]",
        not_a_file: "不是文件",
        list_truncated: "[列表已截断]",
        no_file_name: |path| format!("`{path}` 没有文件名\n提示：请给出文件名：`/put PATH NAME`"),
        cannot_read: |path| format!("无法读取 `{path}`"),
        cannot_write: |path| format!("无法写入 `{path}`"),
        not_regular: |path| format!("`{path}` 不是普通文件"),
        too_large: |path, size, limit| format!("`{path}` 过大：{size}，超过上限 {limit}"),
        not_a_file_name: |name| format!("`{name}` 不是文件名"),
        already_exists: |path| {
            format!("`{path}` 已存在\n提示：`/get NAME PATH` 写入 PATH 并覆盖原文件")
        },
        saved: |path, names, files, size| {
            format!("[{path}：名称 {names} 个，文件 {files} 个，{size}]")
        },
        head_size: "大小",
        head_path: "路径",
        head_cell: "单元",
        head_name: "名称",
        head_memory: "内存",
        head_type: "类型",
        head_shape: "形状",
        seed: "初始值",
    },
    kernel: KernelTexts {
        lost: "会话已丢失，已换成新会话：变量和文件已不存在。请从头运行笔记本。",
        files_of_session: "新文件保存在会话的内存中，随内核一起结束。要写入笔记本所在目录，请用 `belljar kernel install -- --files rw` 安装内核。",
        files_hidden: |path| {
            format!(
                "目录 `{path}` 包含您的主目录，因此代码看不到其中的文件。请在项目目录中启动 Jupyter，或用 `--mount` 指定目录。"
            )
        },
        installed: |name, path| format!("[内核 `{name}` 已安装到 {path}]"),
    },
    settings: SettingsTexts {
        file_exists: |path| format!("{path} 已存在，未做改动"),
        file: |path| format!("设置文件：{path}"),
        file_missing: |path| format!("设置文件：{path}（不存在；`belljar config init` 可以生成）"),
        key_set: "（已设置）",
        key_not_set: "（未设置）",
        not_set: "未设置",
        from_profile: |name| format!("{name} 的默认值"),
        from_default: "默认",
        no_model: "没有设置模型\n提示：用 `--model` 给出 提供方/模型，或设置变量 `BELLJAR_MODEL`，\
                     或写入设置文件（`belljar config init` 可以生成）",
        no_prices: |model, file| {
            format!(
                "设置了费用上限，但不知道 `{model}` 的价格\n提示：去掉上限，或把每百万词元的价格写入 {file}：\n\
                     [prices.\"{model}\"]\ninput = 0.0\noutput = 0.0"
            )
        },
        incomplete_prices: |model, file| {
            format!("{file}：`{model}` 的价格必须同时有 `input` 和 `output`")
        },
        home_invalid: |name| format!("{name}：主目录的路径不是有效的 UTF-8"),
        named_file: "提示：`BELLJAR_CONFIG` 指定了该文件；`belljar config init` 可以生成一个",
        is_table: |name| format!("`{name}` 是一个表\n提示：请写成 `[{name}]`"),
        no_such_setting: |name, nearest, allowed| {
            format!("没有设置 `{name}`\n提示：{nearest}此处可用：{allowed}")
        },
        wrong_value: |name, expected| format!("`{name}` 必须是{expected}"),
        no_such_provider: |name, nearest, providers| {
            format!(
                "没有提供方 `{name}`\n提示：{nearest}提供方有 {providers}；\
             其他兼容 OpenAI 的服务器可以用 `vllm` 并指定 base URL"
            )
        },
        nearest: |name| format!("是否想写 `{name}`？"),
        expected_text: "引号中的字符串",
        expected_model: "引号中的模型名，如 \"ollama/qwen2.5-coder\"",
        expected_path: "引号中以 / 或 ~/ 开头的路径",
        expected_one_of: |words| format!("其中之一：{words}"),
        expected_switch: " true 或 false",
        expected_count: "不带引号的整数，1 到 4294967295",
        expected_amount: "不带引号、不小于 0 的数",
        expected_words: "字符串列表，如 [\"one\", \"two\"]",
        expected_sources: "由字符串组成的表，每一项写作 \"variable:名称\"、\"file:路径\" 或 \"text:…\"",
        expected_headers: "由字符串组成的表，每一项写作 \"variable:名称\" 或 \"file:路径\"，前面可加 \"Bearer \"；不要写入密钥本身",
        template: "# Belljar 的设置。每一行都是示例；去掉 # 即可使用。\n\
         # `belljar config` 显示生效的设置及其来源。\n\
         # 不要把密钥写在这里：请写存放密钥的变量名或文件。\n",

        no_servers: |file| {
            format!(
                "[没有 MCP 服务器：{file} 中没有表 [mcp.名称]；见 `belljar mcp-servers --help`]"
            )
        },
        no_such_server: |name, servers| {
            format!("设置中没有 MCP 服务器 `{name}`\n提示：已配置的服务器：{servers}")
        },
        granted: |tools| format!("已授予 {tools} 个"),
        read_only: "只读",
        idempotent: "幂等",
        not_granted: |tool, why| format!("{tool}  未授予：{why}"),
        tool_withheld: |server, tool, why| format!("[{server}：未授予工具 `{tool}`：{why}]"),
        accept_tools: |server| {
            format!(
                "[用 `belljar mcp-servers` 查看它现在提供的工具，用 `belljar mcp-servers accept {server}` 接受]"
            )
        },
    },
    setting: SettingTexts {
        model: "模型，写作 提供方/模型",
        language: "提示与消息的语言 [默认：随系统]",
        temperature: "采样温度 [默认：由服务器决定]",
        review: "让模型用另一种方法重新求解（多两步）",
        data_dir: "环境目录",
        runs_dir: "任务记录目录",
        budget_steps: "步数，每步为模型的一轮",
        budget_tokens: "所有请求与回复的词元总数",
        budget_money: "费用，货币与价格相同",
        budget_seconds: "模型与工具的总时间 [秒]",
        budget_calls: "工具调用次数",
        budget_cell_calls: "代码调用工具的次数",
        approvals_policy: "哪些代码与工具调用需要批准：never、risky 或 always",
        approvals_tool: "某个工具的策略",
        approvals_capability: "代码某项能力的策略：files_read、files_written、network、processes、deletions、installs、unknown",
        base_url: "提供方服务器的地址",
        key_variable: "存放 API 密钥的环境变量名",
        key_file: "只存放 API 密钥的文件；优先于环境变量",
        allow_plain_http: "允许以明文 HTTP 向其他机器发送密钥",
        dialect: "模型书写动作的方式：native、json、tags 或 fenced",
        context_window: "上下文窗口：对话与回复合计的词元数",
        max_tokens: "一次回复的最大词元数",
        price_input: "每百万输入词元的价格",
        price_output: "每百万输出词元的价格",
        price_cached_input: "每百万来自缓存的输入词元的价格 [默认：同 input]",
        price_cache_write: "每百万写入缓存的输入词元的价格 [默认：同 input]",
        mcp_command: "本地 MCP 服务器的命令及参数",
        mcp_env: "服务器的环境变量，写作 variable:名称、file:路径 或 text:…",
        mcp_url: "远程 MCP 服务器的 URL，代替 `command`",
        mcp_headers: "发给服务器的 HTTP 请求头，写作 variable:名称 或 file:路径",
        mcp_trusted: "信任服务器关于工具只读的声明",
        mcp_tools: "授予的工具 [默认：全部]",
        mcp_direct: "允许模型不经代码直接调用工具",
        mcp_timeout: "一次调用的时限 [秒]",
    },
    demo: DemoTexts {
        sales_title: "销售表与图表",
        sales_task: "sales.csv 中哪个地区的收入最高？总收入是多少？请画出每月收入。",
        sales_look: "要求：一个地区、其收入、总收入和一张图。先查看表格。",
        sales_sum: "收入等于数量乘以单价。按地区汇总，从大到小。",
        sales_chart: "现在画图，并保存为文件。",
        sales_answer: "收入最高的地区是 {best}：{most}，总收入为 {total}。最好的月份是 {month}。图表在 revenue.png 中。",
        repair_title: "出错与修复",
        repair_task: "orders.csv 中每位客户一共支付了多少？请指出哪些订单无法计入。",
        repair_goal: "每位客户支付的金额",
        repair_read: "读取订单",
        repair_add: "汇总金额",
        repair_check: "检查遗漏",
        repair_numbers: "要求：每位客户一个金额。把金额读成数字。",
        repair_commas: "有些金额带逗号，Python 不能直接读成数字；可能还有缺失。去掉逗号，再看剩下什么。",
        repair_answer: "Okafor 支付 {Okafor}，Moreau {Moreau}，Lindqvist {Lindqvist}，Tanaka {Tanaka}。订单 {left_out} 没有金额，未计入。",
        approval_title: "等待批准的单元",
        approval_task: "从 customers.csv 中删除要求删除的客户。每次运行前由我批准。",
        approval_remove: "要求：文件中不含要求删除的客户。这会修改文件：你可以批准、编辑或给出反馈。",
        approval_answer: "已按你的决定执行。customers.csv：保留 {kept}，删除 {removed}。",
        crash_title: "崩溃与恢复的状态",
        crash_task: "统计小于 20,000 的质数。然后让解释器崩溃，并展示哪些工作成果还在。",
        crash_count: "要求：一个计数。先完成计算。",
        crash_now: "现在崩溃：进程在单元执行中结束，就像有缺陷的库会造成的那样。",
        crash_check: "解释器已崩溃。会话已从该单元之前的检查点恢复：检查一下。",
        crash_answer: "小于 20,000 的质数有 {count} 个。崩溃后 {still} 个都还在；最大的是 {largest}。",
        other_code: "这是没有语言模型的演示，我只认识四个任务，你的任务不在其中。我运行一个小单元，展示会话如何工作。",
        other_answer: "这是没有语言模型的演示，所以你的任务没有完成。会话是真实的：Python {python}；文件：{files}。要真正运行，请用 --model 选项启动 belljar serve。",
    },
    tools: ToolTexts {
        run_command: "在与 Python 代码相同的机器和工作目录中运行一条 shell 命令，返回退出码和输出。运行程序用它；处理数据用 Python。同一次回复中的命令先于 Python 代码运行。",
        run_command_line: "交给 `/bin/sh` 的一行命令。",
        run_command_timeout: "时间上限（秒）。",
    },
    doctor: DoctorTexts {
        ok: "正常",
        missing: "缺失",
        note: "注意",
        remedy: |text| format!("处理：{text}"),
        kernel: "Linux 内核",
        user_namespaces: "用户命名空间",
        privileges: "权限",
        temporary_files: "临时文件",
        open_files: "打开文件数",
        environments: "环境",
        session: "会话",
        no_python: "没有找到 Python",
        install_python_and_uv: "安装 python3 和 uv，然后运行：belljar env create",
        kernel_unknown: |release| format!("{release}（未知版本）"),
        check_kernel: "请确认是 Linux 5.19 或更高版本",
        kernel_old: |release| format!("Linux {release}；需要 5.19 或更高版本"),
        update_kernel: "把内核升级到 6.1 或更高版本，建议 6.12 或更高版本",
        version: |version| format!("版本 {version}"),
        landlock_missing: "已停用，或此内核没有该功能",
        boot_with_landlock: "启动时加上内核参数 lsm=landlock,…，后面接 /sys/kernel/security/lsm 中的模块",
        landlock_old: |version, least| format!("版本 {version}；需要 {least} 或更高版本"),
        landlock_no_truncate: |version| {
            format!(
                "版本 {version}：os.truncate(path) 会被拒绝，file.truncate() 可用；信号和抽象套接字只由命名空间隔离"
            )
        },
        landlock_files: |version| {
            format!("版本 {version}：涵盖文件；信号和抽象套接字只由命名空间隔离")
        },
        newer_kernel_all: "可选：Linux 6.12 或更高版本为以上各项增加第二层隔离",
        newer_kernel: "可选：Linux 6.12 或更高版本为这两项增加第二层隔离",
        seccomp_works: "系统调用过滤可用",
        seccomp_missing: "此内核不能过滤系统调用",
        kernel_with_seccomp: "请使用带 CONFIG_SECCOMP_FILTER 的内核，各发行版的内核都有",
        namespaces_work: "可以创建和使用",
        namespaces_refused: |by, error| format!("无法使用：被 {by} 拒绝（{error}）"),
        container_filter: "容器的 seccomp 过滤器",
        namespaces_fail: |error| format!("无法创建：{error}"),
        sysctl: |setting| {
            format!(
                "sudo sysctl -w {setting}（永久生效：echo {setting} | sudo tee /etc/sysctl.d/60-belljar.conf）"
            )
        },
        apparmor_profile: |profile| {
            format!(
                "安装 Debian 软件包；或把以下内容写入 /etc/apparmor.d/belljar，再运行 `sudo apparmor_parser --replace /etc/apparmor.d/belljar`：\n{profile}"
            )
        },
        for_all_programs: |remedy| format!("或者对所有程序放开：{remedy}"),
        or_as_root: "或者以 root 身份运行 belljar",
        in_container: "在容器中：请使用 docs/operations.md 中 \"In a container\" 一节的选项和配置",
        as_root: "root：每个会话在宿主机上有自己的用户 id",
        as_user: "不是 root：所有会话在宿主机上共用你的用户 id，隔离相同",
        as_user_remedy: "只运行自己的代码则无需处理；有多个租户时，请在宿主机上以 root 身份运行 belljar",
        cgroups_work: |version| format!("版本 {version}；可以限制内存、进程和 CPU"),
        cgroup_left: |version| format!("版本 {version}；无法删除测试用的 cgroup"),
        boot_with_cgroup2: |scope| {
            format!(
                "启动时加上内核参数 systemd.unified_cgroup_hierarchy=1（cgroup 版本 2），然后运行：{scope}"
            )
        },
        container_settings: "在容器中：请按 docs/operations.md 中的设置启动容器",
        not_writable: |directory, error| format!("无法写入 {directory}：{error}"),
        set_tmpdir: "把 TMPDIR 设为可写的目录",
        space_unknown: |directory, error| format!("{directory} 可写；剩余空间未知：{error}"),
        little_space: |directory, mib| format!("{directory} 可写，但只剩 {mib} MiB"),
        free_space: "请腾出一些空间（单元的长输出保存在那里），或把 TMPDIR 设为其他目录",
        space: |directory, mib| format!("{directory} 可写，剩余 {mib} MiB"),
        no_limit: "没有上限",
        files_limit: |limit, sessions| format!("上限 {limit}，大约够 {sessions} 个会话"),
        raise_files_limit: "提高硬上限：以 root 身份运行 `ulimit -Hn 65536`，或在 systemd 单元中写 LimitNOFILE=65536",
        uv_remedy: "pip install uv（或把 BELLJAR_UV 设为它的路径）；只在构建环境时需要",
        uv_missing: "PATH 中没有 uv",
        uv_exited: |path, status| format!("{path} 以 {status} 结束"),
        uv_not_started: |path, error| format!("无法启动 {path}：{error}"),
        uv_silent: |path| format!("{path} 没有响应"),
        python_missing: "PATH 中没有 python3",
        python_remedy: "用软件包管理器安装 Python 3.10 或更高版本，或运行 `uv python install`",
        environments_unreadable: |error| format!("无法读取：{error}"),
        own_data_dir: "把 BELLJAR_DATA_DIR 设为你自己的目录",
        environments_broken: |usable, error| format!("可用：{usable}；{error}"),
        none: "无",
        no_environments: "还没有：会话使用上面的 Python",
        create_environment: "belljar env create（第一条需要 `default` 的命令也会构建它）",
        session_works: |start, python, environment, warm| {
            format!(
                "1 + 1 等于 2，用时 {start} 毫秒（{python}，环境 {environment}；模板启动一次，用时 {warm} 毫秒）"
            )
        },
        session_silent: |seconds| format!("{seconds} 秒后没有响应"),
        session_fails: |why, python, environment| {
            format!("无法运行：{why}（{python}，环境 {environment}）")
        },
        gvisor_works: |start| {
            format!("在独立内核中 1 + 1 等于 2，用时 {start} 毫秒：`--walls gvisor` 可用")
        },
        gvisor_missing: "未安装 `runsc`：`--walls gvisor` 不可用",
        install_gvisor: "面向不可信的租户：安装 gVisor，https://gvisor.dev/docs/user_guide/install",
        containers: "容器",
        containers_work: "容器引擎有响应，并且能限制容器：`--image` 可用",
        containers_remedy: "要使用 `--image`：启动 Docker 或 Podman，或设置 DOCKER_HOST",
        fix_above: "请先处理上面缺失的各项",
        report_log: "否则请报告这条命令的输出：BELLJAR_LOG=debug belljar exec '1 + 1'",
    },
    env: EnvTexts {
        removed: |name| format!("已删除环境 `{name}`"),
        building: |name| format!("正在构建环境 `{name}`"),
        seconds: |seconds, line| format!("{seconds:>6.1} 秒  {line}"),
        ready: |name, seconds, python, packages| {
            format!(
                "环境 `{name}` 已就绪，用时 {seconds:.1} 秒：CPython {python}，软件包 {packages} 个"
            )
        },
        warning: |error| format!("警告：{error}"),
        none_yet: "还没有环境。运行 `belljar env create` 构建默认环境",
        head_name: "名称",
        head_packages: "软件包",
        head_preload: "预加载",
        head_image: "镜像",
        name: "名称",
        preload: "预加载",
        fonts: "字体",
        visible: "可见目录",
        image: "镜像",
        engine: "引擎",
        local_docker: "本机的 Docker",
        packages: "软件包",
        none: "无",
        requirements_unreadable: |path| format!("无法读取 `{path}` 中的软件包列表"),
        requirements_unusable: |path| format!("无法使用 `{path}` 中的软件包列表"),
        requirement_is_option: |line, text| {
            format!(
                "第 {line} 行是选项（`{text}`），这里只支持软件包\n提示：请逐行写软件包，软件源请写在 uv 自己的配置中"
            )
        },
        requirements_cut: "最后一行以 `\\` 结尾，但后面没有内容\n提示：补上缺少的行，或去掉 `\\`",
        step_waiting: "正在等待另一个 belljar 构建或删除环境",
        step_venv: "正在创建虚拟环境",
        step_versions: "正在确定软件包的版本",
        step_installing: "正在下载并安装软件包",
        step_compiling: "正在把软件包编译为字节码",
        step_importing: "正在试着导入预加载列表",
        step_no_font: "注意：软件包和本机中都没有能显示中文的字体",
        step_writing: "正在写入磁盘",
    },
    service: ServiceTexts {
        similar_tenant: |name, other| {
            format!(
                "没有租户 `{name}`，但有 `{other}`\n提示：`--new-tenant` 可以创建名称相近的租户"
            )
        },
        new_tenant: |name| format!("[新租户 `{name}`]"),
        no_such_tenant: |name| {
            format!("没有租户 `{name}`\n提示：`belljar tenants list` 列出所有租户")
        },
        key_once: "[API 密钥，只显示这一次：]",
        no_such_key: |prefix| {
            format!("没有前缀为 `{prefix}` 的有效密钥\n提示：`belljar keys list` 列出所有密钥")
        },
        no_data: |directory| format!("[{directory} 中没有密钥和租户]"),
        revoked: |time| format!("已于 {time} 吊销"),
        valid: "有效",
        expired: "已过期",
        head_key: "密钥",
        head_tenant: "租户",
        head_scopes: "权限范围",
        head_created: "创建时间",
        head_expires: "到期时间",
        head_used: "最近使用",
        head_state: "状态",
        head_quotas: "配额",
        head_quota: "配额项",
        head_limit: "上限",
        head_used_today: "今日用量",
        head_time: "时间",
        head_actor: "操作者",
        head_action: "操作",
        head_detail: "详情",
    },
    bench: BenchTexts {
        bare_fork: "复制模板进程 + 命名空间 + 挂载",
        jupyter: "Jupyter 内核 + 导入",
        needs_jupyter: "需要 `--jupyter PYTHON`",
        pipe: "通过管道执行 exec",
        no_filters: "不带 seccomp 和 Landlock",
        cell: "会话中的 x=1",
        program: "会话中的 shell 执行 fork 和 exec",
        no_checkpoints: "没有检查点",
        pickle: "新会话，从 pickle 读取同样的数据",
        write: "写入 + fsync",
        read: "从缓存读取",
        save_and_load: "保存并载入",
        uv: "从 uv 缓存执行 uv pip install --target",
        bare_tool: "由该工具本身执行同样的导入和单元格",
        empty_sandbox: "`runsc` 的空沙箱",
        own_pooled: "Belljar 自有隔离的预热会话",
        own_cell: "Belljar 自有隔离的会话中的 x=1",
        grace: "中断后的宽限时间",
        skipped: |why| format!("已跳过：{why}"),
    },
    errors: ErrorTexts {
        mark: "错误：",
        environment_name: |name| {
            format!(
                "`{name}` 不能作为环境的名称\n提示：请用 1 到 64 个 `a-z`、`0-9`、`.`、`_`、`-`，以字母或数字开头"
            )
        },
        environment_is_image: |name| {
            format!(
                "环境 `{name}` 是容器镜像：Belljar 无法向其中添加软件包\n提示：请构建包含这些软件包的镜像，再用它创建环境"
            )
        },
        environment_exists: |name| {
            format!(
                "环境 `{name}` 已存在\n提示：请换一个名称，或先运行 `belljar env remove {name}`"
            )
        },
        environment_not_found: |name, known| {
            format!(
                "没有环境 `{name}`（现有：{known}）\n提示：运行 `belljar env create {name}`，或查看 `belljar env list`"
            )
        },
        environment_broken: |name, reason| {
            format!(
                "环境 `{name}` 无法使用：{reason}\n提示：运行 `belljar env remove {name}`，然后重新创建"
            )
        },
        uv_missing: |reason| {
            format!(
                "构建环境需要 `uv`：{reason}\n提示：用 `pip install uv` 或软件包管理器安装，或把 `BELLJAR_UV` 设为它的路径"
            )
        },
        uv_failed: |step, status, output| {
            format!("构建环境失败（{step}）：`uv` 以 {status} 结束，输出为：\n{output}")
        },
        no_python: "`PATH` 中没有 CPython 3.10 或更高版本\n提示：请安装一个（用软件包管理器，或 `uv python install 3.12`），或用 `--python PATH` 指定",
        python_missing: |path, reason| {
            format!("`{path}` 处没有 Python：{reason}\n提示：请给出解释器，或 venv 的目录")
        },
        python_unsupported: |path, found| {
            format!(
                "`{path}` 是 {found}，而会话需要 CPython 3.10 或更高版本\n提示：请用 `--python PATH` 指定其他解释器"
            )
        },
        package_invalid: |package, reason| {
            format!(
                "`{package}` 不是软件包要求：{reason}\n提示：请写成 `numpy` 或 `numpy>=2` 的形式"
            )
        },
        module_invalid: |module| {
            format!("`{module}` 不是 Python 模块的名称\n提示：请写成 `matplotlib.pyplot` 的形式")
        },
        preload: |output| {
            format!(
                "预加载列表中有模块无法导入，环境未创建：{output}\n提示：请加上缺少的软件包，或从 `--preload` 中去掉该模块"
            )
        },
        limits: |why| {
            format!(
                "本机无法限制会话的资源：{why}\n提示：`belljar doctor` 显示缺少什么。普通用户需要 cgroup 版本 2 和一个 systemd scope（`systemd-run --user --scope -p Delegate=yes …`）；容器需要 docs/operations.md 中的设置"
            )
        },
        walls: |why| format!("无法建立隔离：{why}\n提示：`belljar doctor` 显示本机缺少什么"),
        template: |environment, why| format!("环境 `{environment}` 的模板没有启动：{why}"),
        session: |why| {
            format!("无法启动会话：{why}\n提示：`belljar doctor` 检查本机是否具备会话所需的条件")
        },
        ended: |why| format!("会话已结束（{why}）\n提示：请启动新会话"),
        busy: "会话正在运行另一个单元\n提示：请等待该单元结束，或中断它",
        no_checkpoint: |checkpoint| format!("没有检查点：{checkpoint}\n提示：请列出会话的检查点"),
        too_many_checkpoints: |limit| {
            format!(
                "会话已有 {limit} 个带名称的检查点，达到上限\n提示：请重用其中一个名称，或丢弃一个"
            )
        },
        not_checkpointed: |why| format!("无法建立检查点：{why}"),
        fork: |why| format!("无法分叉会话：{why}"),
        command: |why| format!("无法运行命令：{why}"),
        unresponsive: "会话没有及时响应",
        cell_too_large: |bytes, limit| format!("单元过大：{bytes} 字节，上限为 {limit}"),
        file_too_large: |path, bytes, limit| {
            format!("`{path}` 过大：{bytes} 字节，最多可以传输 {limit} 字节")
        },
    },
};
