// Made by `npm run types` from docs/openapi.json. Do not change it by hand.
export interface paths {
    "/login": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Logs a browser in: stores the key in a cookie that scripts cannot read.
         * @description The cookie is accepted only in requests with the header `X-Belljar: 1`.
         */
        post: operations["log_in"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/logout": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Logs a browser out: deletes the cookie. */
        post: operations["log_out"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/demo/examples": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the example tasks of demo mode; otherwise none. */
        get: operations["list_examples"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows tenant and scopes of the key, and what the service offers. */
        get: operations["show_me"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Lists runs, newest first.
         * @description A page of a search may have fewer runs than requested, or none, and still have a `next_cursor`: each request looks
         *     at a limited number of runs.
         */
        get: operations["list_runs"];
        put?: never;
        /** Starts a run, which continues without its client. */
        post: operations["create_run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows a run: its state, pending approvals and result. */
        get: operations["show_run"];
        put?: never;
        post?: never;
        /**
         * Deletes an ended run with its events and files.
         * @description Runs that continue it stay unchanged. Large values that no other run has are deleted as soon as no run of the
         *     tenant is running.
         */
        delete: operations["delete_run"];
        options?: never;
        head?: never;
        /** Changes title or tags of a run. Omitted ones stay unchanged. */
        patch: operations["update_run"];
        trace?: never;
    };
    "/v1/runs/{id}/again": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Starts a run again: a new run with the same files, model and budget, and the same or another task.
         * @description A run that continues another one continues it again, from the same step.
         */
        post: operations["run_again"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/approvals/{approval}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Decides a pending approval and resumes the run, also after a restart of the service. */
        post: operations["decide_approval"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/approvals/{approval}/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Previews edited code in the view of an approval. Decides nothing. */
        post: operations["preview_edit"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/artifacts/{path}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Downloads an artifact of an ended run. */
        get: operations["get_artifact"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/branch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Starts a branch: a run that continues a step of another one, which stays unchanged.
         * @description The cells up to that step are executed again. If one of them needs approval, the session is new and empty
         *     instead.
         */
        post: operations["branch_run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/budget": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Raises the budget of a run, at most to the service's maximum.
         * @description Omitted parts, and parts below the current budget, stay unchanged.
         */
        post: operations["raise_budget"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Cancels a run, with the best answer so far. */
        post: operations["cancel_run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Streams the events of a run's journal, from the first one or after `Last-Event-ID`, to its end.
         * @description Between them are `reply` and `cell` events without `id`: live output of the model and the code.
         */
        get: operations["stream_run"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Exports a run so far as notebook, script or HTML page. */
        get: operations["export_run"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/follow-up": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Starts a follow-up: a run that continues the end of another one, in its session.
         * @description If the session was not kept, the cells of that run are executed again. If one of them needs approval, the
         *     session is new and empty instead. The model gets a note about this.
         */
        post: operations["follow_up_run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/interrupt": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Interrupts the running cell, like Ctrl-C. The model sees this and continues. */
        post: operations["interrupt_run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/policy": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Sets the approval policy for the rest of a run, at least as strict as the service's.
         * @description Pending approvals stay pending.
         */
        post: operations["set_policy"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/reproduce": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Runs the code of an ended run again and compares its values.
         * @description The code runs twice, each time in a new session with the files that the run started with. Calls of tools get their
         *     recorded answers. The stream has events `progress` (`done`, `all`) and ends with `reproduction`, or with `problem`.
         *     Whoever leaves the stream ends it.
         */
        post: operations["reproduce_run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Resumes an interrupted run. No effect on a running or waiting one. */
        post: operations["resume_run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/shares": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the share links of a run. */
        get: operations["list_shares"];
        put?: never;
        /**
         * Creates a share link: a read-only view of a run, a step or a value of the answer, for whoever has its token.
         * @description The view has the task, the answer with its evidence, and the steps, as they are when somebody looks. It has no
         *     files, and nothing else of the tenant. A link to one step has the task and that step. A link to one value has the task,
         *     the lines of the answer that have the value, its evidence, and the step that computed it.
         */
        post: operations["create_share"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/shares/{share}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Revokes a share link: it shows nothing from then on. */
        delete: operations["revoke_share"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/steps": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the parsed steps of a run, with outcomes of cells. */
        get: operations["list_steps"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/thread": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows the conversation that a run is a turn of: the runs that it continues, and those that continue its end. */
        get: operations["show_thread"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists sessions, oldest first: those of all nodes of a cluster. */
        get: operations["list_sessions"];
        put?: never;
        /** Starts a session. */
        post: operations["create_session"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/from-snapshot": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Starts a session from a snapshot. */
        post: operations["load_snapshot"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows a session. */
        get: operations["show_session"];
        put?: never;
        post?: never;
        /** Deletes a session and ends its processes. */
        delete: operations["delete_session"];
        options?: never;
        head?: never;
        /** Changes name, metadata or time to live of a session. */
        patch: operations["update_session"];
        trace?: never;
    };
    "/v1/sessions/{id}/archive": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Downloads the workspace, or a directory, as a tar archive: its regular files and directories. */
        get: operations["download_archive"];
        /**
         * Unpacks a tar archive into the workspace, or into a directory, which is made. Existing files are replaced.
         * @description Only files and directories: an archive with links, devices, or paths that are absolute or have `..` is refused
         *     before anything is written.
         */
        put: operations["upload_archive"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/cells": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the cells that a session keeps. */
        get: operations["list_cells"];
        put?: never;
        /** Runs a cell and returns its outcome; with `Accept: text/event-stream`, streams its events. */
        post: operations["run_cell"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/cells/{cell}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows a cell. */
        get: operations["show_cell"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/cells/{cell}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Streams the events of a cell, from the first one or after `Last-Event-ID`, to its end. */
        get: operations["stream_cell"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/cells/{cell}/input": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Answers a question of a running cell, which its event `input_requested` reported. */
        post: operations["answer_input"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/checkpoints": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the checkpoints of a session. Waits for a running cell. */
        get: operations["list_checkpoints"];
        put?: never;
        /** Makes a named checkpoint of a session. Waits for a running cell. */
        post: operations["create_checkpoint"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/checkpoints/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Deletes a named checkpoint. */
        delete: operations["forget_checkpoint"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/commands": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the commands of a session. */
        get: operations["list_commands"];
        put?: never;
        /**
         * Runs a command in a session, also while a cell runs.
         * @description In the foreground, waits for its end; with `Accept: text/event-stream`, streams its events. It is killed
         *     if the client disconnects. In the background, returns at once.
         */
        post: operations["run_command"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/commands/{pid}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows a command, with its newest output. */
        get: operations["show_command"];
        put?: never;
        post?: never;
        /** Kills a command and its children. No effect on an ended one, which stays listed. */
        delete: operations["kill_command"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/commands/{pid}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Streams the events of a command, from a position in its output to its end. */
        get: operations["stream_command"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/commands/{pid}/input": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Writes to the standard input or the terminal of a command. Waits while the program does not read. */
        post: operations["write_input"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/commands/{pid}/resize": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Changes the size of a command's terminal. */
        post: operations["resize_terminal"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/commands/{pid}/signal": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Sends a signal to a command and its children. No effect on an ended one. */
        post: operations["signal_command"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/commands/{pid}/terminal": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Opens a WebSocket to the terminal of a command: bytes as binary messages in both directions, `resize` in and `end` out
         *     as JSON text messages. Begins with the output that is kept.
         */
        get: operations["open_terminal"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/directories": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Makes a directory and its missing parents. One that exists is no error. */
        post: operations["make_directory"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the files of a workspace. */
        get: operations["list_files"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/files/{path}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Downloads a file. */
        get: operations["get_file"];
        /** Writes a file atomically, and creates its directories. */
        put: operations["put_file"];
        post?: never;
        /** Deletes a file or an empty directory; with `recursive`, a directory with its contents. */
        delete: operations["delete_file"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/fork": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Forks a session. Waits for a running cell. */
        post: operations["fork_session"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/hibernate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Hibernates a session; its next use wakes it. Waits for a running cell. */
        post: operations["hibernate_session"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/interrupt": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Interrupts the running cell, like Ctrl-C; variables are kept. */
        post: operations["interrupt_session"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/lease": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Moves the end of a session's lease, earlier or later. The session ends then, or hibernates. */
        post: operations["move_lease"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/manifest": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the names of a namespace. Waits for a running cell. */
        get: operations["show_manifest"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/namespaces": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the namespaces of a session. Does not wait for a running cell. */
        get: operations["list_namespaces"];
        put?: never;
        /** Adds an empty namespace to a session. Does not wait for a running cell. */
        post: operations["create_namespace"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/namespaces/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Removes a namespace with its variables. Waits for a running cell. */
        delete: operations["delete_namespace"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/namespaces/{name}/restart": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Forgets the variables of a namespace. Waits for a running cell. */
        post: operations["restart_namespace"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/notebook": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows the notebook of a session. Does not wake the session. */
        get: operations["show_notebook"];
        /** Replaces the notebook of a session, if nobody else has since it was read. Runs nothing, and does not wake the session. */
        put: operations["store_notebook"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/ports/{port}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Returns URL, token and link of a port of a session, whether or not a program listens there yet.
         * @description Requests to the URL need the key (`Authorization: Bearer KEY`), the token, or the cookie of the link.
         */
        post: operations["open_port"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/rename": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Renames a file or directory, and makes the missing parents of its new path. A file of that path is replaced. */
        post: operations["rename_file"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/restore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Restores the variables of a checkpoint; files stay. Waits for a running cell. */
        post: operations["restore_session"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/snapshot": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Downloads a snapshot of a session, which stays live. Waits for a running cell. */
        get: operations["download_snapshot"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/stat": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows the status of a file or directory. Links are not followed. */
        get: operations["stat_file"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/uploads": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Begins an upload in parts. An empty file is written at once. */
        post: operations["create_upload"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/uploads/{upload}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Gives an upload up. */
        delete: operations["delete_upload"];
        options?: never;
        /** Says how much of an upload has arrived. */
        head: operations["show_upload"];
        /**
         * Adds a part to an upload. With the last one the file is written, atomically.
         * @description What has arrived of a part that is cut off counts: `HEAD` says where to continue.
         */
        patch: operations["add_to_upload"];
        trace?: never;
    };
    "/v1/sessions/{id}/variables/{name}/csv": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Downloads a table as CSV: all rows that pass the filters. Waits for a running cell. Nothing of the session changes. */
        get: operations["download_table"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/variables/{name}/rows": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Rows of a table. Waits for a running cell. Nothing of the session changes.
         * @description A `DataFrame` or a `Series` of pandas is a table, and an array of numpy with two dimensions.
         */
        get: operations["read_table_rows"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/variables/{name}/statistics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Statistics of a column of a table. Waits for a running cell. Nothing of the session changes. */
        get: operations["read_column_statistics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/wake": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Wakes a hibernated session. */
        post: operations["wake_session"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/watch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Streams the changes in the workspace, or in a directory, from now on. Directories in it are not watched. */
        get: operations["watch_directory"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/ws": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Opens a WebSocket: cells and interrupts in, events out, as JSON text messages. */
        get: operations["open_socket"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/shared": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows a shared run, to whoever has the token of its link: `Authorization: Bearer TOKEN`. */
        get: operations["show_shared"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/shared/steps": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the parsed steps of a shared run, with outcomes of cells; of a link to a part, the step of that part. */
        get: operations["list_shared_steps"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description A request for approval. */
        Approval: {
            /** @description Its id within its run. */
            id: string;
            /**
             * Format: uint32
             * @description Its step.
             */
            step: number;
            /**
             * Format: uint32
             * @description The index of the call in the step.
             */
            call: number;
            /** @description What is to be approved. */
            subject: components["schemas"]["Subject"];
            /** @description SHA-256 of its exact bytes: a decision is for these, and for nothing else. */
            hash: string;
            /** @description The view for a person. Whoever asks a person shows this, and nothing else of it. */
            shown: components["schemas"]["ShownSubject"];
        };
        /** @description The approval policy of a run. */
        Approvals: {
            /**
             * @description For everything that the others don't name.
             * @default never
             */
            policy: components["schemas"]["Policy"];
            /** @description Tools, by name. */
            tools?: {
                [key: string]: components["schemas"]["Policy"];
            };
            /** @description For code, by capability. */
            capabilities?: {
                [key: string]: components["schemas"]["Policy"];
            };
        };
        /** @description A file that a cell made or changed. */
        Artifact: {
            /** @description Path relative to the workspace. */
            path: string;
            /**
             * Format: uint64
             * @description Bytes.
             */
            size: number;
            /** @description The change. */
            change: components["schemas"]["ArtifactChange"];
        };
        /** @description A change of a file. */
        ArtifactChange: "created" | "changed";
        /** @description A reference to a blob in an event. */
        BlobRef: {
            /** @description The hash of its contents. */
            hash: string;
            /**
             * Format: uint64
             * @description Its size.
             */
            bytes: number;
            /**
             * @description Its MIME type, such as `image/png`. It is kept here alone: the same bytes may have two
             *     types.
             */
            media_type: string;
        };
        /** @description The result of an alternative. */
        Branch: {
            /** @description The alternative as JSON; cut where it is long. */
            alternative: string;
            /** @description Whether the check accepted it. */
            accepted: boolean;
            /** @description Why not, in words. */
            why?: string | null;
        };
        /** @description A branch of a run. */
        BranchFrom: {
            /**
             * Format: int32
             * @description Last step that the new run keeps.
             */
            step: number;
            /** @description Task for the model [default: the task of that run]. */
            task?: string | null;
        };
        /** @description Whether code of a run may try alternatives, and which of them is accepted. */
        Branches: {
            /** Format: uint32 */
            most: number;
            check: string;
        };
        /** @description The budget of a run. The first part that is used up ends it. */
        Budget: {
            /**
             * Format: uint32
             * @description Turns of the model: 20.
             * @default 20
             */
            steps: number;
            /**
             * Format: uint64
             * @description Tokens of all requests and replies together.
             */
            tokens?: number | null;
            /**
             * Format: double
             * @description Money, in the currency of the profile's prices.
             */
            money?: number | null;
            /**
             * Format: uint64
             * @description Seconds of the model and the tools together.
             */
            seconds?: number | null;
            /**
             * Format: uint32
             * @description Tool calls: 100.
             * @default 100
             */
            calls: number;
            /**
             * Format: uint32
             * @description Tool calls by code of cells: 10,000. Further calls are denied; the run continues.
             * @default 10000
             */
            cell_calls: number;
            /**
             * Format: uint32
             * @description Rollbacks by loop detection: 2.
             * @default 2
             */
            repeats: number;
        };
        /** @description Requested budget of a run. */
        BudgetAsked: {
            /**
             * Format: int32
             * @description Tool calls.
             */
            calls?: number | null;
            /**
             * Format: double
             * @description Money, in the currency of the service's prices.
             */
            money?: number | null;
            /**
             * Format: int64
             * @description Time of model and tools together, in seconds.
             */
            seconds?: number | null;
            /**
             * Format: int32
             * @description Steps, each a turn of the model.
             */
            steps?: number | null;
            /**
             * Format: int64
             * @description Tokens of all requests and replies.
             */
            tokens?: number | null;
        };
        /** @description A part of a [`Budget`]. */
        BudgetPart: "steps" | "tokens" | "money" | "seconds" | "calls";
        /** @description Why the host denied a call by itself. */
        CallDenial: {
            /** @constant */
            reason: "not_granted";
        } | {
            /** @constant */
            reason: "nobody_answers";
        } | {
            /** @constant */
            reason: "arguments";
            /** @description What is wrong with them. */
            why: string;
        };
        /** @description The id of a call, unique in its session. */
        CallId: {
            /**
             * Format: uint32
             * @description Number of its cell.
             */
            cell: number;
            /**
             * Format: uint32
             * @description Its number in the cell, counted from 1 in the order in which the code makes calls.
             */
            number: number;
        };
        /** @description The result of a call. */
        CallResult: {
            /** @description The text for the model, cut to what a step may have. */
            text: string;
            /**
             * @description Whether it failed.
             * @default false
             */
            failed: boolean;
            /** @description The result as data, for tools that keep some: the last result of a computation. */
            value?: unknown;
            /** @description The cell that ran, for a call of `python`. */
            cell?: components["schemas"]["CellResult"] | null;
            /**
             * @description Where the session is saved as it was after the call, in a cluster. If a call may have changed it and there is
             *     none, it was not saved.
             */
            session?: components["schemas"]["BlobRef"] | null;
            /**
             * Format: uint64
             * @description How long it took.
             * @default 0
             */
            took_ms: number;
        };
        /** @description A tool call. */
        CallView: {
            /** @description Arguments; for a cell, `code` as executed, including edits by a person. */
            arguments: Record<string, never>;
            outcome?: components["schemas"]["Outcome"];
            /** @description Note for the model instead of an outcome, such as why code was not run. */
            told?: string | null;
            tool: string;
        };
        /** @description A capability of code. */
        Capability: "files_read" | "files_written" | "network" | "processes" | "deletions" | "installs" | "unknown";
        /** @description Why it ended. */
        Cause: {
            /** @constant */
            kind: "completed";
        } | {
            /** @constant */
            kind: "exception";
        } | {
            /** @constant */
            kind: "syntax";
        } | {
            /** @constant */
            kind: "exit";
            /**
             * Format: int64
             * @description The code it exited with.
             */
            code: number;
        } | {
            /** @constant */
            kind: "interrupted";
        } | {
            /** @constant */
            kind: "wall_time";
            /**
             * Format: uint64
             * @description The limit.
             */
            limit_ms: number;
        } | {
            /** @constant */
            kind: "cpu_time";
            /**
             * Format: uint64
             * @description The limit.
             */
            limit_ms: number;
        } | {
            /** @constant */
            kind: "memory";
            /**
             * Format: uint64
             * @description The session's limit.
             */
            limit_bytes: number;
        } | {
            /** @constant */
            kind: "signal";
            /**
             * Format: int32
             * @description Number of the signal.
             */
            number: number;
            /** @description Its name, such as `SIGSEGV`. */
            name: string;
        } | {
            /** @constant */
            kind: "output_limit";
            /**
             * Format: uint64
             * @description The limit.
             */
            limit_bytes: number;
        } | {
            /** @constant */
            kind: "protocol";
            /** @description The protocol error. */
            detail: string;
        };
        /** @description The answer to a question of a cell: `text` or `eof`. */
        CellInput: {
            /** @description Whether there is no more input, which raises `EOFError`. */
            eof?: boolean;
            /**
             * Format: int32
             * @description Number of the question: `call.number` of its event.
             */
            number: number;
            /** @description The line, without its end. At most 64 KiB. Never logged, and never returned. */
            text?: string | null;
        };
        /** @description The cells that a session keeps. */
        CellList: {
            /** @description Oldest first, without outcomes. */
            cells: components["schemas"]["CellView"][];
        };
        /** @description The result of a cell. */
        CellResult: {
            /**
             * Format: uint32
             * @description Its number in the session.
             */
            number: number;
            /** @description The whole outcome. */
            outcome: components["schemas"]["BlobRef"];
            /** @description Its output and displays, as far as an outcome keeps them: the evidence for an answer. */
            output: string;
            /** @description The exception that ended it, in one line. */
            error?: string | null;
            /**
             * @description Images that it showed.
             * @default []
             */
            images: components["schemas"]["BlobRef"][];
            /**
             * @description Files that it made or changed.
             * @default []
             */
            artifacts: components["schemas"]["Artifact"][];
            /**
             * @description The manifest after it.
             * @default []
             */
            manifest: components["schemas"]["NameInfo"][];
            /**
             * @description Whether the variables were lost: the session has to be restarted.
             * @default false
             */
            lost: boolean;
        };
        /**
         * @description State of a cell.
         * @enum {string}
         */
        CellState: "running" | "done" | "failed";
        /** @description A running or ended cell. */
        CellView: {
            /**
             * Format: int32
             * @description Number of the cell in its session.
             */
            cell: number;
            /** @description Python source code, if it is kept. */
            code?: string | null;
            /**
             * Format: int64
             * @description Number of events so far.
             */
            events: number;
            outcome?: components["schemas"]["Outcome"];
            /**
             * @description Names of the namespace that the code reads before it writes them. Left out if the code does not say them, as with
             *     magics and `exec`.
             */
            reads?: string[] | null;
            state: components["schemas"]["CellState"];
            /** @description Names of the namespace that the code binds, or whose value it changes in place. Imports are left out. */
            writes?: string[] | null;
        };
        /** @description Changes of a cell to the namespace. */
        Changes: {
            /**
             * @description New names.
             * @default []
             */
            added: components["schemas"]["NameInfo"][];
            /**
             * @description Names bound to another value, or whose length or shape changed.
             * @default []
             */
            changed: components["schemas"]["NameInfo"][];
            /**
             * @description Removed names.
             * @default []
             */
            removed: string[];
        };
        /** @description The checkpoints of a session. */
        CheckpointList: {
            /** @description Newest last. */
            checkpoints: components["schemas"]["CheckpointView"][];
        };
        /**
         * @description When checkpoints of a session are made.
         * @enum {string}
         */
        CheckpointPolicy: "off" | "auto" | "every";
        /** @description A checkpoint of a session. */
        CheckpointView: {
            /**
             * Format: int32
             * @description Cell after which it was made; 0 before the first cell.
             */
            cell: number;
            /**
             * Format: int64
             * @description Memory that only this checkpoint holds, in bytes.
             */
            memory_bytes?: number | null;
            /** @description Name of the checkpoint, if it has one. */
            name?: string | null;
        };
        /** @description Figures about the values of a column, in the rows that pass the filters. */
        ColumnStatistics: {
            /**
             * Format: uint64
             * @description How many values there are.
             */
            count: number;
            /**
             * Format: uint64
             * @description How many are missing.
             */
            missing: number;
            /**
             * Format: uint64
             * @description How many different ones there are; null if they cannot be compared.
             */
            unique?: number | null;
            /** @description The least; null if they have no order. */
            min?: boolean | number | string | null;
            /** @description The greatest; null if they have no order. */
            max?: boolean | number | string | null;
            /** @description The mean of numbers; null for other values. */
            mean?: boolean | number | string | null;
        };
        /** @description One fact about a running command. */
        CommandEvent: {
            /** @constant */
            type: "started";
            /**
             * Format: int32
             * @description Process id in the session.
             */
            pid: number;
        } | {
            /** @constant */
            type: "output";
            /** @description Where it was written. */
            stream: components["schemas"]["CommandStream"];
            /** @description The output. Bytes that are not UTF-8 are replaced. */
            text: string;
            /**
             * Format: uint64
             * @description Position after it, in bytes: `from` of a later request.
             */
            next: number;
        } | {
            /** @constant */
            type: "lost";
            /**
             * Format: uint64
             * @description Number of bytes.
             */
            bytes: number;
            /**
             * Format: uint64
             * @description Position after them.
             */
            next: number;
        } | {
            /** @constant */
            type: "end";
            /** @description How it ended: `ended` or `lost`. */
            state: components["schemas"]["CommandState"];
            /**
             * Format: int32
             * @description Exit code, unless a signal ended it.
             */
            exit_code?: number | null;
            /** @description Name of the signal that ended it, such as `SIGKILL`. */
            signal?: string | null;
            /** @description Whether its timeout ended it. */
            timed_out: boolean;
            /** @description Why its end is unknown, if it is lost. */
            lost_because?: string | null;
        };
        /** @description Input for a command: `text` or `base64`, and whether it is the last. */
        CommandInput: {
            /** @description Input as bytes in Base64. */
            base64?: string | null;
            /** @description Whether to close standard input after it. A terminal gets Ctrl-D. */
            close?: boolean;
            /** @description Input as text. */
            text?: string | null;
        };
        /** @description The commands of a session. */
        CommandList: {
            /** @description Running ones and the last ended ones, oldest first, without output. */
            commands: components["schemas"]["CommandView"][];
        };
        /** @description The newest output of a command. */
        CommandOutput: {
            /**
             * Format: int64
             * @description Number of bytes before it that are not kept.
             */
            omitted_bytes: number;
            /** @description The output. Bytes that are not UTF-8 are replaced. */
            text: string;
        };
        /** @description A signal for a command. */
        CommandSignal: {
            /** @description Name of the signal, such as `SIGINT`. */
            signal: string;
        };
        /** @description State of a command. */
        CommandState: "running" | "ended" | "lost";
        /** @description Where a command wrote something. */
        CommandStream: "stdout" | "stderr" | "terminal";
        /** @description A running or ended command. */
        CommandView: {
            /** @description Program and arguments; after 4 KiB, they are cut with `…`. */
            argv: string[];
            /**
             * Format: int32
             * @description Exit code, unless a signal ended it.
             */
            exit_code?: number | null;
            /** @description Why its end is unknown, if it is lost. */
            lost_because?: string | null;
            /**
             * Format: int32
             * @description Process id in the session.
             */
            pid: number;
            /** @description Name of the signal that ended it, such as `SIGKILL`. */
            signal?: string | null;
            /**
             * Format: int64
             * @description Start time, in seconds since 1970.
             */
            started_at: number;
            state: components["schemas"]["CommandState"];
            stderr?: components["schemas"]["CommandOutput"] | null;
            stdout?: components["schemas"]["CommandOutput"] | null;
            terminal?: components["schemas"]["CommandOutput"] | null;
            /** @description Whether its timeout ended it. */
            timed_out: boolean;
        };
        /** @description A computation over many values. */
        Computation: "total" | "average" | "median" | "distinct" | "largest" | "smallest";
        /** @description A checkpoint to make. */
        CreateCheckpoint: {
            /** @description Name; replaces a checkpoint of the same name. */
            name: string;
        };
        /** @description A namespace to create. */
        CreateNamespace: {
            /** @description Where its first cell starts, relative to the workspace [default: the workspace]. */
            directory?: string | null;
            /** @description Name: letters, digits, `-`, `_` and `.`. */
            name: string;
        };
        /** @description A run to start. Omitted fields have the service's defaults. */
        CreateRun: {
            approvals?: components["schemas"]["PolicyAsked"] | null;
            /** @description Budget, at most the service's maximum. */
            budget?: components["schemas"]["BudgetAsked"];
            /** @description One of the environments that the service offers. */
            environment?: string | null;
            /** @description Files for the workspace. */
            files?: components["schemas"]["FileGiven"][];
            /**
             * @description One of the isolation tiers that the service offers [default: its first, or the tenant's minimum].
             * @enum {string|null}
             */
            isolation?: "container" | "full" | "gvisor" | null;
            language?: components["schemas"]["Language"];
            /** @description One of the models that the service offers. */
            model?: string | null;
            /** @description Task for the model. */
            task: string;
            /** @description Tools of the host for the model, besides Python. */
            tools?: components["schemas"]["ToolAsked"][];
        };
        /** @description Options of a new session. Omitted fields have the service's defaults. */
        CreateSession: {
            checkpoints?: components["schemas"]["CheckpointPolicy"] | null;
            /** @description One of the environments that the service offers. */
            environment?: string | null;
            /**
             * @description One of the isolation tiers that the service offers [default: its first, or the tenant's minimum].
             * @enum {string|null}
             */
            isolation?: "container" | "full" | "gvisor" | null;
            /** @description Resource limits, at most the service's maximum. */
            limits?: components["schemas"]["LimitsAsked"];
            /** @description Metadata: at most 16 strings. A change replaces all of it. */
            metadata?: {
                [key: string]: string;
            } | null;
            /** @description Names of directories of the host that the service offers: shown in `/data/NAME` [default: none]. */
            mounts?: string[];
            /** @description Name: a label, at most 100 characters. */
            name?: string | null;
            /** @description Network access [default: none]. */
            network?: components["schemas"]["NetworkAsked"];
            packages?: components["schemas"]["PackagesAsked"] | null;
            /** @description Secrets by name: environment variables that are stored nowhere, and replaced by `[secret NAME]` in output. Values of at least 8 bytes. */
            secrets?: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @description Seconds after which the session ends, used or not: its first lease [default: 0, never].
             */
            ttl_seconds?: number | null;
            /** @description Environment variables by name; some names are reserved. */
            variables?: {
                [key: string]: string;
            };
        };
        /** @description A share link to create. */
        CreateShare: {
            /**
             * Format: int32
             * @description The one step to show; without step and value, the link shows the run.
             */
            step?: number | null;
            /**
             * Format: int32
             * @description The one value to show: its place in the evidence of the answer, from 1.
             */
            value?: number | null;
        };
        /** @description A new share link. */
        CreatedShare: components["schemas"]["ShareView"] & {
            /** @description Its token, not shown again. The page is `/#/shared/TOKEN`. */
            token: string;
        };
        /** @description Decision about a pending approval. */
        Decide: {
            decision: components["schemas"]["DecisionAsked"];
            /** @description `hash` of the approval: the decision is only for these bytes. */
            hash: string;
        };
        /** @description A person's decision. */
        Decision: {
            /** @constant */
            kind: "accept";
            /**
             * @description Don't ask again in this run for a cell with the same capabilities, or for this tool.
             * @default false
             */
            rest_of_run: boolean;
        } | {
            /** @constant */
            kind: "edit";
            /** @description The code. */
            code: string;
        } | {
            /** @constant */
            kind: "feedback";
            /** @description In the person's words. */
            text: string;
        } | {
            /** @constant */
            kind: "reject";
        };
        /** @description A person's decision. */
        DecisionAsked: {
            /** @enum {string} */
            kind: "accept";
            /** @description Don't ask again in this run for the same tool or capabilities. */
            rest_of_run?: boolean;
        } | {
            /** @description Code to run. */
            code: string;
            /** @enum {string} */
            kind: "edit";
        } | {
            /** @enum {string} */
            kind: "feedback";
            /** @description Feedback text. */
            text: string;
        } | {
            /** @enum {string} */
            kind: "reject";
        };
        /** @description A denied network request of a session. */
        Denial: {
            /** @description The requested host: printable ASCII, other bytes as `\xNN`, at most 255 bytes. */
            host: string;
            /**
             * Format: uint16
             * @description The requested port.
             */
            port: number;
            /** @description The reason. */
            reason: components["schemas"]["DeniedReason"];
        };
        /** @description Why a network request was denied. Shown after the host, as in [`Denial`]. */
        DeniedReason: "not_listed" | "address_literal" | "invalid_name" | "refused_address" | "host_mismatch" | "not_tls" | "no_server_name" | "server_name_mismatch" | "encrypted_hello";
        /** @description How the code of cells computed a value. */
        Derivation: {
            /** @description The expression that was shown. */
            expression: string;
            /** @description The names that it was computed from, directly or not, in the order of their names. */
            inputs?: components["schemas"]["DerivationInput"][];
            /** @description The files that these were read from. */
            files?: string[];
            /** @description What the code says that it is, by `cite`; left out if it does not. */
            label?: string | null;
        };
        /** @description A name that a value was computed from. */
        DerivationInput: {
            /** @description The name. */
            name: string;
            /**
             * Format: uint32
             * @description The cell that wrote it last.
             */
            cell?: number | null;
            /** @description The statement that wrote it. */
            code: string;
        };
        /** @description How a model writes actions. */
        Dialect: "native_tools" | "json_action" | "tags" | "fenced_code";
        /** @description A rich output: the same thing in one or more representations. */
        Display: {
            /** @description The representations, best last. */
            parts: components["schemas"]["DisplayData"][];
            /** @description Whether it is the value of the cell's last expression. */
            value?: boolean;
            /** @description Its id, if the program gave it one to change it later. */
            id?: string | null;
            /** @description Whether it replaces the newest display with its id. In an outcome: one of an earlier cell. */
            update?: boolean;
            /** @description What the program says about its representations, by MIME type. */
            metadata?: {
                [key: string]: unknown;
            };
        };
        DisplayData: {
            mime: string;
            text?: string | null;
            base64?: string | null;
        };
        /** @description A reason why an answer is unverified. */
        Doubt: {
            /** @constant */
            kind: "nothing_run";
        } | {
            /** @constant */
            kind: "last_call_failed";
        } | {
            /** @constant */
            kind: "unseen";
            /** @description The value. */
            value: string;
        } | {
            /** @constant */
            kind: "written_in_code";
            /** @description The value. */
            value: string;
        } | {
            /** @constant */
            kind: "file_missing";
            /** @description Its name. */
            file: string;
        } | {
            /** @constant */
            kind: "data_not_read";
        } | {
            /** @constant */
            kind: "name_omitted";
        } | {
            /** @constant */
            kind: "number_omitted";
        } | {
            /** @constant */
            kind: "not_computed";
            /** @description The computation. */
            computation: components["schemas"]["Computation"];
        } | {
            /** @constant */
            kind: "column_missing";
            /** @description The column. */
            column: string;
        } | {
            /** @constant */
            kind: "column_exists";
            /** @description The column. */
            column: string;
        } | {
            /** @constant */
            kind: "ignored";
            /** @description The value or the column. */
            term: string;
        } | {
            /** @constant */
            kind: "not_converted";
            /** @description The unit of the data. */
            data_unit: string;
            /** @description The unit in the task. */
            task_unit: string;
        };
        /** @description Durations of a cell. */
        Durations: {
            /**
             * Format: uint64
             * @description From the request to the outcome, as the host saw it.
             */
            total_us: number;
            /**
             * Format: uint64
             * @description From the first to the last statement, as the guest measured it; 0 if it did not report it.
             */
            run_us: number;
            /**
             * Format: uint64
             * @description CPU time of everything in the session, according to the kernel.
             */
            cpu_us: number;
        };
        /** @description Code in the view of an approval. */
        EditPreview: {
            shown: components["schemas"]["ShownSubject"];
        };
        /** @description Edited code. */
        EditedCode: {
            /** @description The whole code. */
            code: string;
        };
        /** @description The end of a run. */
        Ending: {
            /** @description Why. */
            reason: components["schemas"]["ExitReason"];
            /** @description The answer; its reason says whether it is unverified. */
            answer?: string | null;
            /** @description The last output of a successful cell, if there is no answer. It is not an answer. */
            last_output?: string | null;
            /**
             * @description The evidence for the values in it.
             * @default []
             */
            evidence: components["schemas"]["Evidence"][];
            /**
             * @description Files that the run made.
             * @default []
             */
            artifacts: components["schemas"]["Artifact"][];
            /** @description The contents of these files by path, in a cluster. Elsewhere they are in a directory of the run. */
            contents?: {
                [key: string]: components["schemas"]["BlobRef"];
            };
            /** @description Files that it made, or that its answer names, and that could not be kept: the first ones. */
            not_kept?: components["schemas"]["NotKept"][];
            /**
             * Format: uint64
             * @description How many more could not be kept.
             */
            not_kept_more?: number;
        };
        /** @description One fact about a running cell. The last one is always [`Event::Outcome`]. */
        Event: {
            /** @constant */
            type: "started";
            /**
             * Format: uint32
             * @description Its number in the session, counted from 1.
             */
            cell: number;
        } | {
            /** @constant */
            type: "output";
            /** @description Where it was written. */
            stream: components["schemas"]["Stream"];
            /** @description The text; invalid UTF-8 becomes `\xNN`. */
            text: string;
        } | {
            /** @constant */
            type: "truncated";
            /** @description The stream. */
            stream: components["schemas"]["Stream"];
        } | (components["schemas"]["Display"] & {
            /** @constant */
            type: "display";
        }) | {
            /** @constant */
            type: "cleared";
            /** @description Whether to keep showing them until the next output. */
            wait?: boolean;
        } | {
            /** @constant */
            type: "called";
            /** @description The id of the call, for the answer. */
            call: components["schemas"]["CallId"];
            /** @description The tool, which is granted to the session. */
            tool: string;
            /** @description The arguments by name. */
            arguments: {
                [key: string]: unknown;
            };
        } | {
            /** @constant */
            type: "call_denied";
            /** @description The id of the call. */
            call: components["schemas"]["CallId"];
            /** @description The requested name, shortened. */
            tool: string;
            /** @description Why it was denied. */
            why: components["schemas"]["CallDenial"];
        } | {
            /** @constant */
            type: "call_cancelled";
            /** @description The id of the call. */
            call: components["schemas"]["CallId"];
        } | {
            /** @constant */
            type: "input_requested";
            /** @description The id of the question, for the answer. */
            call: components["schemas"]["CallId"];
            /** @description The text before the answer, which a program chose. */
            prompt: string;
            /** @description Whether the answer must not be shown. */
            password: boolean;
        } | {
            /** @constant */
            type: "input_closed";
            /** @description The id of the question. */
            call: components["schemas"]["CallId"];
        } | (components["schemas"]["Denial"] & {
            /** @constant */
            type: "denied";
        }) | (components["schemas"]["Outcome"] & {
            /** @constant */
            type: "outcome";
        });
        /**
         * @description A number, a quoted text or the name of a file in an answer. It shows where a value comes from, not
         *     that it is right.
         */
        Evidence: {
            /** @description As it stands in the answer. */
            value: string;
            /** @description Where it was seen; left out if nowhere. */
            seen?: components["schemas"]["Seen"] | null;
        };
        /** @description A file of an example task. */
        ExampleFile: {
            /** @description Contents, as base64. */
            contents: string;
            name: string;
        };
        /** @description An example task of demo mode. */
        ExampleView: {
            files: components["schemas"]["ExampleFile"][];
            id: string;
            /** @description Task, by language code. */
            task: {
                [key: string]: string;
            };
            /** @description Title, by language code. */
            title: {
                [key: string]: string;
            };
        };
        /** @description An exception of Python. */
        ExceptionInfo: {
            /** @description Name of its type, with the module unless that is `builtins` or `__main__`. */
            type: string;
            /**
             * @description `__name__` of its type. Empty in outcomes of older versions.
             * @default
             */
            name: string;
            /** @description `str()` of it. */
            value: string;
            /** @description `repr()` of it. */
            repr: string;
            /** @description The traceback without Belljar's own frames. */
            traceback: string;
            /**
             * Format: uint32
             * @description The line of this cell where it came from.
             * @default null
             */
            line: number | null;
        };
        /** @description Why a run ended. */
        ExitReason: {
            /** @constant */
            kind: "answered";
        } | {
            /** @constant */
            kind: "unverified";
            /** @description Why not. */
            doubts: components["schemas"]["Doubt"][];
        } | {
            /** @constant */
            kind: "model_failed";
            /** @description Why. */
            error: string;
        } | {
            /** @constant */
            kind: "not_understood";
        } | {
            /** @constant */
            kind: "repetition";
        } | {
            /** @constant */
            kind: "budget";
            /** @description Which. */
            part: components["schemas"]["BudgetPart"];
        } | {
            /** @constant */
            kind: "stopped";
        };
        /** @description What became of the session's variables. */
        Fate: {
            /** @constant */
            fate: "kept";
        } | {
            /** @constant */
            fate: "restored";
            /**
             * Format: uint32
             * @description The cell; 0 before the first one.
             */
            cell: number;
        } | {
            /** @constant */
            fate: "lost";
        };
        /** @description A change in a watched directory. */
        FileEvent: {
            /** @constant */
            type: "created";
            /** @description Name of the entry in the directory. */
            name: string;
        } | {
            /** @constant */
            type: "written";
            /** @description Name of the entry in the directory. */
            name: string;
        } | {
            /** @constant */
            type: "deleted";
            /** @description Name of the entry in the directory. */
            name: string;
        } | {
            /** @constant */
            type: "renamed";
            /** @description Name of the entry in the directory. */
            name: string;
        } | {
            /** @constant */
            type: "attributes";
            /** @description Name of the entry in the directory. */
            name: string;
        } | {
            /** @constant */
            type: "overflowed";
        } | {
            /** @constant */
            type: "end";
        };
        /** @description A file for a run: its contents, or a file of a session of the same tenant. */
        FileGiven: {
            /** @description Contents, as base64. */
            contents?: string | null;
            /** @description Name in the workspace of the run, without directories. */
            name: string;
            /** @description Path in the workspace of that session. */
            path?: string | null;
            /** @description Session with the file; the key also needs the scope `sessions`. */
            session_id?: string | null;
        };
        /**
         * @description Kind of an entry.
         * @enum {string}
         */
        FileKind: "file" | "directory" | "other";
        /** @description The entries of a workspace. */
        FileList: {
            /** @description Sorted by path. */
            files: components["schemas"]["FileView"][];
            /** @description Whether the listing is truncated. */
            truncated: boolean;
        };
        /** @description Status of a file or directory. */
        FileStatusView: {
            kind: components["schemas"]["FileKind"];
            /**
             * Format: int32
             * @description Permissions, as `chmod` takes them.
             */
            mode: number;
            /**
             * Format: int64
             * @description Time of the last change, in seconds since 1970.
             */
            modified_at: number;
            /** @description Path, as requested. */
            path: string;
            /**
             * Format: int64
             * @description Size of a file, in bytes.
             */
            size: number;
        };
        /** @description An entry of a workspace. */
        FileView: {
            kind: components["schemas"]["FileKind"];
            /** @description Path, relative to the workspace; below `/tmp`, an absolute one. */
            path: string;
            /**
             * Format: int64
             * @description Size of a file, in bytes.
             */
            size: number;
        };
        /** @description A place in the code that shows a capability. */
        Finding: {
            /**
             * Format: uint32
             * @description The line, counted from 1 by line feeds.
             */
            line: number;
            /** @description The capability. */
            capability: components["schemas"]["Capability"];
            /** @description The code there: the function by its full name, and the text that it is given. */
            what: string;
        };
        /** @description Why a reply ended. */
        Finish: "stop" | "tool_calls" | "length" | {
            other: string;
        };
        /** @description A follow-up of a run. */
        FollowUp: {
            /** @description Task for the model. */
            task: string;
        };
        /** @description Number of forks to make. */
        ForkSession: {
            /**
             * Format: int32
             * @description Number of forks [default: 1].
             */
            count?: number;
            /** @description Names of the secrets that the forks get; `["*"]` for all [default: none]. */
            secrets?: string[];
        };
        /** @description The new sessions. */
        Forks: {
            sessions: components["schemas"]["SessionView"][];
        };
        /** @description A tool that is granted to the code of a run. */
        GrantedTool: {
            /**
             * @description Its name. Characters that are invalid in Python become `_`: `web-search` of the host is
             *     `tools.web_search` in code.
             */
            name: string;
            /** @description Its description. */
            description: string;
            /**
             * @description JSON Schema of its arguments, which are an object. The order of the properties is the order
             *     of the parameters, required ones first.
             */
            parameters: unknown;
            /**
             * @description JSON Schema of its result, if known. `{"x-belljar": "table"}` makes a result with `columns`
             *     and `rows`, or an array of objects, a `pandas.DataFrame`.
             */
            result?: unknown;
            /**
             * @description Its effects.
             * @default each_call
             */
            effects: components["schemas"]["ToolEffects"];
            /**
             * @description Whether the model can call it by itself too, without code.
             * @default false
             */
            direct: boolean;
        };
        /** @description Whether a cell was interrupted. */
        Interrupted: {
            /** @description False if no cell was running. */
            interrupted: boolean;
        };
        /** @description An isolation tier that a session may choose. */
        IsolationView: {
            /** @description What its sessions can do, by name; the rest is refused. */
            capabilities: string[];
            /** @description Environments that have it. */
            environments: string[];
            /**
             * @description Isolation of the session.
             * @enum {string}
             */
            name: "none" | "unfiltered" | "container" | "full" | "gvisor";
        };
        /** @description A language of text for people or models. */
        Language: "english" | "chinese";
        /**
         * @description What a session does at the end of its lease.
         * @enum {string}
         */
        LeaseEnd: "end" | "sleep";
        /** @description The end of a session's lease. */
        LeaseView: {
            /**
             * Format: int64
             * @description When the lease ends, in seconds since 1970.
             */
            ends_at: number;
            then: components["schemas"]["LeaseEnd"];
        };
        /** @description Names and files that a snapshot lacks. */
        LeftOut: {
            /**
             * Format: int64
             * @description Size of the snapshot, in bytes.
             */
            bytes: number;
            /** @description Files that were not saved. After 1,000 entries, as with names. */
            files: components["schemas"]["Reason"][];
            /** @description Names that were not saved. After 1,000 entries, a last one without name has the number of the rest. */
            names: components["schemas"]["Reason"][];
        };
        /** @description Requested limits. */
        LimitsAsked: {
            /**
             * Format: int64
             * @description CPU time limit of a cell, in milliseconds.
             */
            cpu_time_ms?: number | null;
            /**
             * Format: int64
             * @description Memory of the session, including its files, in bytes.
             */
            memory_bytes?: number | null;
            /**
             * Format: int64
             * @description CPU limit, in thousandths of a CPU.
             */
            milli_cpus?: number | null;
            /**
             * Format: int64
             * @description Number of processes and threads.
             */
            processes?: number | null;
            /**
             * Format: int64
             * @description Time limit of a cell, in milliseconds.
             */
            wall_time_ms?: number | null;
            /**
             * Format: int64
             * @description Size of the workspace, in bytes.
             */
            workspace_bytes?: number | null;
        };
        /** @description Limits of a session. */
        LimitsView: {
            /** Format: int64 */
            cpu_time_ms?: number | null;
            /** Format: int64 */
            memory_bytes: number;
            /** Format: int64 */
            milli_cpus: number;
            /** Format: int64 */
            processes: number;
            /** Format: int64 */
            transfer_bytes: number;
            /** Format: int64 */
            wall_time_ms: number;
            /** Format: int64 */
            workspace_bytes: number;
        };
        /** @description Login of a browser. */
        LogIn: {
            /** @description API key, `bj_PREFIX_SECRET`. */
            key: string;
        };
        /** @description A directory to make. */
        MakeDirectory: {
            /** @description Path, relative to the workspace, or below `/tmp`. */
            path: string;
        };
        /** @description Names in a namespace. */
        Manifest: {
            names: components["schemas"]["NameInfo"][];
        };
        /** @description Tenant and rights of a key. */
        Me: {
            budget: components["schemas"]["Budget"];
            /** @description Whether the service is in demo mode. */
            demo: boolean;
            /** @description Environments that a session may choose, the default first. */
            environments: string[];
            /** @description Whether this is the admin address, which has `/v1/admin`, but neither runs nor sessions. */
            is_admin_address: boolean;
            /** @description Isolation that a session may choose, the default first. */
            isolation: components["schemas"]["IsolationView"][];
            /** @description Models for runs, the default first. */
            models: string[];
            /** @description Public key (Ed25519, base64) that signs exported pages. */
            report_key: string;
            /** @description Scopes of the key. */
            scopes: string[];
            tenant: string;
            /** @description Version of the service. */
            version: string;
        };
        /** @description A new end of a lease. */
        MoveLease: {
            /**
             * Format: int64
             * @description Seconds from now until the lease ends, at most the service's maximum.
             */
            seconds: number;
            /** @description What the session does then [default: end]. */
            then?: components["schemas"]["LeaseEnd"];
        };
        /** @description One name of a namespace. */
        NameInfo: {
            /** @description The name. */
            name: string;
            /** @description Type of its value, with the module unless that is `builtins`. */
            type: string;
            /** @description Shape of an array or table. */
            shape?: number[] | null;
            /**
             * Format: uint64
             * @description Length of a built-in container or string.
             */
            length?: number | null;
            /**
             * Format: uint64
             * @description Estimate of the bytes it holds.
             */
            size_bytes?: number | null;
            /**
             * Format: uint32
             * @description The cell where it was bound; 0 for a seeded name.
             */
            cell: number;
            /**
             * @description The beginning of its value on one line, for built-in types and those of numpy and pandas. Only the manifest
             *     has it, not the changes of a cell.
             */
            preview?: string | null;
        };
        /** @description The namespaces of a session. */
        NamespaceList: {
            /** @description `main` first, then in the order of their creation. */
            namespaces: components["schemas"]["NamespaceView"][];
        };
        /** @description A namespace of a session. */
        NamespaceView: {
            /** @description Where its first cell starts. Later ones start where the one before was. */
            directory: string;
            name: string;
        };
        /** @description Requested network access. */
        NetworkAsked: {
            /** @description Entries of the service's allow-list, exactly as listed there. */
            allow?: string[];
        };
        /** @description A file that could not be kept. */
        NotKept: {
            /** @description Its path in the workspace. */
            path: string;
            /** @description Why it is missing. */
            why: string;
        };
        /** @description The cells of a session as a person has arranged them. */
        Notebook: {
            /** @description Its cells, in their order. */
            cells: components["schemas"]["NotebookCell"][];
            /** @description Numbers of executed cells that it does not show: run again since, or removed. */
            hidden?: number[];
            /**
             * Format: int64
             * @description Counts how often it was stored. To store it, send the revision that it was read with.
             */
            revision: number;
        };
        /** @description A cell of a notebook. */
        NotebookCell: {
            /**
             * Format: int32
             * @description Number of its newest execution, if it has run.
             */
            cell?: number | null;
            /** @description Chosen by the client, and unique in the notebook. */
            id: string;
            kind: components["schemas"]["NotebookCellKind"];
            /** @description Python source code, or Markdown. */
            source: string;
        };
        /**
         * @description Kind of a cell of a notebook.
         * @enum {string}
         */
        NotebookCellKind: "code" | "markdown";
        /** @description The revision of a stored notebook. */
        NotebookRevision: {
            /** Format: int64 */
            revision: number;
        };
        /** @description A body without fields, or none. */
        Nothing: Record<string, never>;
        /**
         * @description What to do with the variables if a cell fails.
         * @enum {string}
         */
        OnFailureAsked: "keep" | "restore";
        /** @description The result of a cell. */
        Outcome: {
            /**
             * Format: uint32
             * @description Number of the cell in its session, counted from 1.
             */
            cell: number;
            /** @description Network activity of the session since the last outcome, if it may reach any hosts. */
            network?: components["schemas"]["Traffic"] | null;
            /** @description Its isolation; left out if all walls were up. */
            walls?: components["schemas"]["Walls"];
            /** @description How it ended. */
            status: components["schemas"]["Status"];
            /** @description Why. */
            cause: components["schemas"]["Cause"];
            /** @description What became of the variables. */
            state: components["schemas"]["Fate"];
            /**
             * Format: int64
             * @description 0 if the process lives on; otherwise its exit code, or minus the number of the signal.
             */
            exit_code: number;
            /** @description The exception, if one came out of the code. */
            exception?: components["schemas"]["ExceptionInfo"] | null;
            /** @description The package of a module that was not found, if the session may install it. */
            package?: string | null;
            /** @description The option that would let a failed cell succeed, if one would. */
            remedy?: components["schemas"]["Remedy"] | null;
            /** @description Packages that were installed for this cell, with their versions. */
            installed?: string[];
            /** @description Output to descriptor 1. */
            stdout: components["schemas"]["Output"];
            /** @description Output to descriptor 2. */
            stderr: components["schemas"]["Output"];
            /** @description Both, in the order they were written, as a terminal would show them. */
            transcript: string;
            /**
             * @description Rich outputs, in order.
             * @default []
             */
            displays: components["schemas"]["Display"][];
            /**
             * @description Files the cell created or changed.
             * @default []
             */
            artifacts: components["schemas"]["Artifact"][];
            /**
             * @description Changes to the namespace.
             * @default {
             *       "added": [],
             *       "changed": [],
             *       "removed": []
             *     }
             */
            changes: components["schemas"]["Changes"];
            /**
             * @description Notes: what was left out of this outcome, and why; and what the session lacks since it was
             *     restored, or since it hibernated before this cell.
             * @default []
             */
            notes: string[];
            /** @description Durations. */
            durations: components["schemas"]["Durations"];
            /**
             * Format: uint64
             * @description Peak memory of the session during the cell, if the kernel reports it.
             */
            peak_memory_bytes?: number | null;
        };
        /** @description The output of one stream. */
        Output: {
            /**
             * @description The text, cut in the middle with a mark if it was too long. Of a line with three or more
             *     carriage returns, such as a progress bar, the last state. Without text that the program
             *     cleared.
             */
            text: string;
            /**
             * Format: uint64
             * @description Bytes that were written.
             */
            bytes: number;
            /**
             * Format: uint64
             * @description Bytes that `text` leaves out at its mark.
             */
            omitted_bytes: number;
            /** @description The file with the full text while the session lives, if `text` leaves out some of a long one. */
            file?: string | null;
            /** @description Whether that file is complete. */
            file_truncated?: boolean;
        };
        /**
         * @description Which packages a session may install.
         * @enum {string}
         */
        PackagePolicy: "deny" | "allow" | "any";
        /** @description Packages that a session may install. */
        PackagesAsked: {
            /** @description Names, each permitted by the service; none for no packages. Dependencies are included. */
            allow?: string[];
        };
        /** @description Package policy of a session. */
        PackagesView: {
            /** @description The permitted names, if the policy is `allow`. */
            allow?: string[];
            policy: components["schemas"]["PackagePolicy"];
        };
        /** @description The run that another one continues. */
        Parent: {
            /** @description Its id. */
            run: string;
            /**
             * Format: uint32
             * @description The last of its steps that counts.
             */
            step: number;
            /** @description Its summary for the model. */
            told: string;
            /**
             * @description Its manifest at that step.
             * @default []
             */
            manifest: components["schemas"]["NameInfo"][];
            /**
             * Format: uint32
             * @description How many cells had run in its saved session; 0 if none was saved.
             * @default 0
             */
            kept_cells: number;
            /** @description Where that session is saved, in a cluster. */
            session?: components["schemas"]["BlobRef"] | null;
            /** @description The code of the cells that made its session, in a list: run again if no session was saved. */
            code?: components["schemas"]["BlobRef"] | null;
            /** @description Names of files that its saved session lacks: they are new, or have new contents. */
            new_files?: string[];
        };
        /** @description The run that another one continues. */
        ParentView: {
            id: string;
            /**
             * Format: int32
             * @description Last step that the new run keeps.
             */
            step: number;
        };
        /** @description When approval is needed, from the weakest to the strictest. */
        Policy: "never" | "risky" | "always";
        /**
         * @description Which code and tool calls need approval.
         * @enum {string}
         */
        PolicyAsked: "never" | "risky" | "always";
        /** @description How a port of a session is reached. */
        PortView: {
            /** @description Host name of this port alone, with the port of the service if it has one. */
            host: string;
            /** @description URL for a browser: sets a cookie of this host name and opens the port. */
            link: string;
            /**
             * Format: int64
             * @description When the link ends, in seconds since 1970.
             */
            link_ends_at: number;
            /** @description Token for the header `X-Belljar-Port-Token`, valid for this port. */
            token: string;
            /**
             * Format: int64
             * @description When the token ends, in seconds since 1970.
             */
            token_ends_at: number;
            /** @description URL of the port, for requests with a credential. */
            url: string;
        };
        /** @description A problem in a response (RFC 9457). */
        Problem: {
            /** @description Stable code of a problem. */
            code: string;
            /** @description Cause of this problem. */
            detail: string;
            quota?: components["schemas"]["QuotaUse"] | null;
            /** @description Whether the same request may succeed later. */
            retry: boolean;
            /**
             * Format: int32
             * @description HTTP status of the response.
             */
            status: number;
            /** @description Meaning of the code. */
            title: string;
            /** @description Path of the page about this code, on this server. */
            type: string;
        };
        /**
         * @description A quota of a tenant.
         * @enum {string}
         */
        Quota: "sessions" | "runs" | "creates_per_second" | "requests_per_second" | "memory_bytes" | "disk_bytes" | "cpu_ms" | "output_bytes" | "egress_bytes" | "events" | "tokens" | "money_micros";
        /** @description An exceeded quota, in a response. */
        QuotaUse: {
            /** Format: int64 */
            limit: number;
            name: components["schemas"]["Quota"];
            /**
             * Format: int64
             * @description Time of the reset of a daily quota, in seconds since 1970.
             */
            resets_at?: number | null;
            /** Format: int64 */
            used: number;
        };
        /** @description Parts of a budget to raise to at least these values. Parts that are left out stay as they are. */
        Raise: {
            /**
             * Format: uint32
             * @description Turns of the model.
             */
            steps?: number | null;
            /**
             * Format: uint64
             * @description Tokens of all requests and replies together.
             */
            tokens?: number | null;
            /**
             * Format: double
             * @description Money.
             */
            money?: number | null;
            /**
             * Format: uint64
             * @description Seconds of the model and the tools together.
             */
            seconds?: number | null;
            /**
             * Format: uint32
             * @description Tool calls.
             */
            calls?: number | null;
        };
        /** @description An omitted name or file, with the reason. */
        Reason: {
            name: string;
            /** @description Namespace of a name, if not `main`. */
            namespace?: string | null;
            why: string;
        };
        /** @description An option of the session that would let a failed cell succeed. */
        Remedy: {
            /** @description The option. */
            option: components["schemas"]["RemedyOption"];
            /** @description Who sets it. */
            set_by: components["schemas"]["SetBy"];
            /** @description The package or the host, if it is known. */
            value?: string | null;
        };
        /** @description An option that a [`Remedy`] names. */
        RemedyOption: "packages" | "network";
        /** @description A file or directory to rename. */
        RenameFile: {
            /** @description Path, relative to the workspace, or below `/tmp`. */
            from: string;
            /** @description Its new path. */
            to: string;
        };
        /** @description A complete reply. */
        Reply: {
            /** @description Its text. */
            text: string;
            /** @description Its reasoning, if the server separates it. */
            thinking?: string;
            /** @description Its calls, in order. */
            tool_calls?: components["schemas"]["ToolCall"][];
            /** @description Why it ended. */
            finish: components["schemas"]["Finish"];
            /** @description Its usage. */
            usage: components["schemas"]["Usage"];
            /** @description The model, according to the server. */
            model?: string | null;
            /** @description Reasoning with the server's signature, which must go back unchanged with this reply. */
            sealed_thinking?: unknown[];
        };
        /** @description A cell, or a call of another tool. */
        ReproducedCell: {
            /**
             * Format: uint32
             * @description The step.
             */
            step: number;
            /**
             * Format: uint32
             * @description The number of the cell; none for another tool.
             */
            cell?: number | null;
            /** @description The comparison of all that it showed: text, images, exception. */
            verdict: components["schemas"]["Verdict"];
        };
        /** @description A file that the run made. */
        ReproducedFile: {
            /** @description Its path in the workspace. */
            path: string;
            /** @description The comparison of its contents. */
            verdict: components["schemas"]["Verdict"];
        };
        /** @description A value of the answer. */
        ReproducedValue: {
            /** @description As it stands in the answer. */
            value: string;
            /**
             * Format: uint32
             * @description The step that printed it.
             */
            step: number;
            /**
             * Format: uint32
             * @description The cell that printed it.
             */
            cell?: number | null;
            /** @description The comparison. */
            verdict: components["schemas"]["Verdict"];
            /** @description The line of the run's output that has it. */
            recorded: string;
            /** @description The line in its place, if it is another one now. */
            now?: string | null;
        };
        /**
         * @description What came of running the code of a run again: twice, each time in a new session with the files
         *     that the run started with. Calls of tools get the answers that they got in the run.
         */
        Reproduction: {
            /** @description The values of the answer that an output shows. */
            values: components["schemas"]["ReproducedValue"][];
            /** @description The files that the run made. */
            files: components["schemas"]["ReproducedFile"][];
            /** @description The cells, and the calls of other tools. */
            cells: components["schemas"]["ReproducedCell"][];
        };
        /** @description The checkpoint to restore, by cell or by name. */
        RestoreCheckpoint: {
            /**
             * Format: int32
             * @description The newest checkpoint after this cell.
             */
            cell?: number | null;
            /** @description The checkpoint of this name. */
            name?: string | null;
        };
        /** @description The capabilities of a cell. */
        Risk: {
            /** @description The findings, by line. What is found several times is listed at its first line. */
            findings: components["schemas"]["Finding"][];
            /** @description The modules that it imports: of dotted names the first part. */
            imports: string[];
        };
        /** @description A run to start again. */
        RunAgain: {
            /** @description Task for the model [default: the task of that run]. */
            task?: string | null;
        };
        /** @description A run in a list. */
        RunBrief: components["schemas"]["RunLabelView"] & {
            /**
             * Format: int64
             * @description Creation time, in seconds since 1970.
             */
            created_at: number;
            id: string;
            model: string;
            parent?: components["schemas"]["ParentView"] | null;
            state: components["schemas"]["RunState"];
            task: string;
        };
        /** @description A cell to run. */
        RunCell: {
            /** @description Python source code. */
            code: string;
            /** @description Whether the client answers `input()` and `getpass()` of the cell. If false, they raise `EOFError`. */
            input?: boolean;
            /** @description The namespace that it runs in [default: `main`]. */
            namespace?: string | null;
            /** @description What to do with the variables if the cell fails. */
            on_failure?: components["schemas"]["OnFailureAsked"];
            /** @description Environment variables by name; some names are reserved. */
            variables?: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @description Time limit, if shorter than the session's, in milliseconds.
             */
            wall_time_ms?: number | null;
            /** @description What to do if another cell is running. */
            when_busy?: components["schemas"]["WhenBusyAsked"];
        };
        /** @description The program that a person gave a task in: an editor. */
        RunClient: {
            /** @description Its name, in its own words. */
            name: string;
            /** @description The directory that the person works in. */
            directory: string;
        };
        /** @description A command to run: `command` or `argv`. */
        RunCommand: {
            /** @description Program and arguments. Not together with `command`. */
            argv?: string[] | null;
            /** @description Whether to return at once, and let the command run without a client. */
            background?: boolean;
            /** @description Line for the shell, `/bin/sh`. Not together with `argv`. */
            command?: string | null;
            /** @description Directory to start in, relative to the workspace [default: the workspace]. */
            directory?: string | null;
            /** @description Text for standard input, which is closed after it. Not together with `terminal`. */
            input?: string | null;
            terminal?: components["schemas"]["TerminalSizeAsked"] | null;
            /**
             * Format: int64
             * @description Time limit, in milliseconds [default: 10 minutes in the foreground, none in the background].
             */
            timeout_ms?: number | null;
            /** @description Environment variables of this command. Never logged, and never returned. */
            variables?: {
                [key: string]: string;
            };
        };
        /** @description One fact about a run. The journal has them in order; folding them yields the run. */
        RunEvent: (components["schemas"]["Start"] & {
            /** @constant */
            kind: "started";
        }) | {
            /** @constant */
            kind: "asked";
            /**
             * Format: uint32
             * @description The step, counted from 1.
             */
            step: number;
            /** @description The body of the request. */
            body: components["schemas"]["BlobRef"];
        } | {
            /** @constant */
            kind: "replied";
            /**
             * Format: uint32
             * @description The step.
             */
            step: number;
            /** @description The reply. */
            reply: components["schemas"]["Reply"];
            /**
             * Format: uint64
             * @description How long it took.
             */
            took_ms: number;
            /**
             * Format: double
             * @description Its cost, in the currency of the profile.
             */
            cost?: number | null;
        } | {
            /** @constant */
            kind: "model_failed";
            /**
             * Format: uint32
             * @description The step.
             */
            step: number;
            /** @description Why, in words. */
            error: string;
        } | {
            /** @constant */
            kind: "call_started";
            /**
             * Format: uint32
             * @description The step.
             */
            step: number;
            /**
             * Format: uint32
             * @description Its index among the calls of the step.
             */
            call: number;
        } | {
            /** @constant */
            kind: "call_ended";
            /**
             * Format: uint32
             * @description The step.
             */
            step: number;
            /**
             * Format: uint32
             * @description Its index.
             */
            call: number;
            /** @description The result. */
            result: components["schemas"]["CallResult"];
        } | {
            /** @constant */
            kind: "call_lost";
            /**
             * Format: uint32
             * @description The step.
             */
            step: number;
            /**
             * Format: uint32
             * @description Its index.
             */
            call: number;
            /**
             * @description Whether its code was run again, and made other calls than the first time.
             * @default false
             */
            differs: boolean;
        } | (components["schemas"]["Approval"] & {
            /** @constant */
            kind: "approval_asked";
        }) | {
            /** @constant */
            kind: "approval_decided";
            /** @description The approval. */
            approval: string;
            /** @description The hash of the approved bytes. */
            hash: string;
            /** @description The decision. */
            decision: components["schemas"]["Decision"];
        } | {
            /** @constant */
            kind: "budget_raised";
            /** @description Which, and to what. */
            raise: components["schemas"]["Raise"];
        } | {
            /** @constant */
            kind: "policy_set";
            /** @description The new policy. */
            policy: components["schemas"]["Policy"];
        } | {
            /** @constant */
            kind: "tool_called";
            /**
             * Format: uint32
             * @description The step.
             */
            step: number;
            /**
             * Format: uint32
             * @description The index of the cell's call in the step.
             */
            call: number;
            /**
             * Format: uint32
             * @description Its number among the calls of the cell, from 1.
             */
            number: number;
            /** @description The tool. */
            tool: string;
            /** @description The arguments. */
            arguments: {
                [key: string]: unknown;
            };
        } | {
            /** @constant */
            kind: "tool_answered";
            /**
             * Format: uint32
             * @description The step.
             */
            step: number;
            /**
             * Format: uint32
             * @description The index of the cell's call in the step.
             */
            call: number;
            /**
             * Format: uint32
             * @description Its number.
             */
            number: number;
            /** @description The answer. */
            answer: components["schemas"]["ToolAnswer"];
        } | {
            /** @constant */
            kind: "branched";
            /**
             * Format: uint32
             * @description The step.
             */
            step: number;
            /**
             * Format: uint32
             * @description The index of the cell's call in the step.
             */
            call: number;
            /**
             * Format: uint32
             * @description The number of the call.
             */
            number: number;
            /** @description The result of each, up to the accepted one. */
            branches: components["schemas"]["Branch"][];
        } | {
            /** @constant */
            kind: "session_started";
            /** @description What it has of an earlier session, in words for the model; none for a first one. */
            note?: string | null;
            /**
             * Format: uint32
             * @description How many cells it has run: those of the earlier session, if that could be loaded.
             * @default 0
             */
            cells: number;
            /** @description Its manifest. */
            manifest: components["schemas"]["NameInfo"][];
            /** @description Where it is saved, in a cluster. */
            session?: components["schemas"]["BlobRef"] | null;
        } | {
            /** @constant */
            kind: "rolled_back";
            /**
             * Format: uint32
             * @description The step.
             */
            step: number;
            /** @description Whether the variables were restored to that state. */
            restored: boolean;
            /** @description The manifest after it, if it was read. */
            manifest: components["schemas"]["NameInfo"][];
            /** @description Where the session is saved as it was after it, in a cluster. */
            session?: components["schemas"]["BlobRef"] | null;
        } | {
            /** @constant */
            kind: "stopped";
        } | (components["schemas"]["Ending"] & {
            /** @constant */
            kind: "ended";
        });
        /** @description What people call a run. */
        RunLabelView: {
            /** @description Tags of the run, sorted. */
            tags: string[];
            /** @description Title that somebody gave the run. */
            title?: string | null;
        };
        /** @description A page of runs. */
        RunPage: {
            /** @description Cursor of the next page; absent on the last page. */
            next_cursor?: string | null;
            runs: components["schemas"]["RunBrief"][];
        };
        /**
         * @description State of a run.
         * @enum {string}
         */
        RunState: "running" | "waits" | "answered" | "unverified" | "ended" | "interrupted";
        /** @description A run. */
        RunView: components["schemas"]["RunBrief"] & {
            /** @description Answer; in state `unverified` it is not proven, and `reason` has the doubts. */
            answer?: string | null;
            approvals: components["schemas"]["Policy"];
            artifacts: components["schemas"]["Artifact"][];
            budget: components["schemas"]["Budget"];
            /** @description Chosen environment; without it, the default one of the service. */
            environment?: string | null;
            /**
             * Format: int64
             * @description Number of events.
             */
            events: number;
            evidence: components["schemas"]["Evidence"][];
            /**
             * @description Isolation of the session.
             * @enum {string}
             */
            isolation?: "none" | "unfiltered" | "container" | "full" | "gvisor";
            language: components["schemas"]["Language"];
            /** @description Last output of a run without an answer. It is not an answer. */
            last_output?: string | null;
            not_kept?: components["schemas"]["NotKept"][];
            /**
             * Format: int64
             * @description Number of further files that were not kept.
             */
            not_kept_more?: number;
            reason?: components["schemas"]["ExitReason"];
            spent: components["schemas"]["Spent"];
            waits_for: components["schemas"]["Approval"][];
        };
        /** @description Where a value was seen. */
        Seen: {
            /** @constant */
            kind: "output";
            /**
             * Format: uint32
             * @description The step.
             */
            step: number;
            /**
             * Format: uint32
             * @description The cell, for a call of `python`.
             */
            cell?: number | null;
            /** @description The line of the output that has it. */
            line: string;
            /**
             * @description Whether the output has more digits.
             * @default false
             */
            rounded: boolean;
            /** @description Why the output shows the same digits, but not what the answer says; left out if nothing speaks against it. */
            weak?: components["schemas"]["Weakness"] | null;
            /** @description How the code computed it, if that is what the answer says of it; left out if the output only has the digits. */
            derived?: components["schemas"]["Derivation"] | null;
        } | {
            /** @constant */
            kind: "task";
        } | {
            /** @constant */
            kind: "file";
        } | {
            /** @constant */
            kind: "code";
            /**
             * Format: uint32
             * @description The step.
             */
            step: number;
            /**
             * Format: uint32
             * @description The cell.
             */
            cell?: number | null;
        };
        /** @description A page of sessions. */
        SessionPage: {
            /** @description Cursor of the next page; absent on the last page. */
            next_cursor?: string | null;
            sessions: components["schemas"]["SessionView"][];
            /** @description Nodes of the cluster that did not answer in time: their sessions are missing here. */
            unanswered?: string[];
        };
        /**
         * @description State of a session.
         * @enum {string}
         */
        SessionState: "awake" | "hibernated" | "ended";
        /** @description A session. */
        SessionView: {
            /** @description Hosts that the session may reach. */
            allow: string[];
            /** @description Whether a cell is running. */
            busy: boolean;
            /**
             * Format: int32
             * @description Number of the last started cell.
             */
            cells: number;
            checkpoints: components["schemas"]["CheckpointPolicy"];
            /**
             * Format: int64
             * @description Creation time, in seconds since 1970.
             */
            created_at: number;
            /** @description Environment of the session. */
            environment: string;
            /**
             * Format: int64
             * @description When the session ends by itself, in seconds since 1970.
             */
            expires_at?: number | null;
            /** @description Id of the session that this is a fork of. */
            forked_from?: string | null;
            id: string;
            /**
             * @description Isolation of the session.
             * @enum {string}
             */
            isolation: "none" | "unfiltered" | "container" | "full" | "gvisor";
            lease?: components["schemas"]["LeaseView"] | null;
            limits: components["schemas"]["LimitsView"];
            /** @description Why a restart of the service lost the session, if it did. */
            lost_because?: string | null;
            metadata?: {
                [key: string]: string;
            };
            /** @description Directories of the host, in `/data/NAME`. */
            mounts?: string[];
            name?: string | null;
            /**
             * Format: int64
             * @description Revision of its notebook, once one was stored.
             */
            notebook?: number | null;
            packages: components["schemas"]["PackagesView"];
            /** @description Names of its secrets. */
            secrets?: string[];
            state: components["schemas"]["SessionState"];
            use?: components["schemas"]["UseView"] | null;
            /** @description Names of its environment variables. */
            variables?: string[];
        };
        /** @description Who sets the options of a session. */
        SetBy: "library" | "command" | "service";
        /** @description New approval policy. */
        SetPolicy: {
            approvals: components["schemas"]["PolicyAsked"];
        };
        /** @description Share links of a run. */
        ShareList: {
            /** @description Oldest first. */
            shares: components["schemas"]["ShareView"][];
        };
        /** @description A share link, without its token. */
        ShareView: {
            /**
             * Format: int64
             * @description Creation time, in seconds since 1970.
             */
            created_at: number;
            id: string;
            /** @description Prefix of the key that made it. */
            key: string;
            /**
             * Format: int32
             * @description The one step that it shows.
             */
            step?: number | null;
            /**
             * Format: int32
             * @description The one value that it shows: its place in the evidence of the answer, from 1. Without step and value, it shows the
             *     run.
             */
            value?: number | null;
        };
        /** @description A run as a share link shows it. */
        SharedRun: {
            /** @description Answer; not for a link to a step. For a link to a value, the lines that have it. */
            answer?: string | null;
            evidence: components["schemas"]["Evidence"][];
            /** @description Last output of a run without an answer. It is not an answer. */
            last_output?: string | null;
            model: string;
            reason?: components["schemas"]["ExitReason"];
            spent?: components["schemas"]["Spent"];
            state: components["schemas"]["RunState"];
            /**
             * Format: int32
             * @description The one step that the link shows.
             */
            step?: number | null;
            task: string;
            title?: string | null;
            /** @description The one value that the link shows, as the answer has it. Without step and value, it shows the run. */
            value?: string | null;
        };
        /** @description A piece of a row. */
        ShownPart: {
            /**
             * @description Text to be shown unchanged: letters, signs and single spaces, and nothing that acts on other
             *     text.
             */
            text: string;
            /**
             * @description Whether it replaces something invisible or deceptive, as `\u{202e}`, or a long repetition,
             *     as `⟨40 empty lines⟩`.
             */
            odd?: boolean;
        };
        /** @description A line as a person sees it, or a part of a long one, or several blank ones. */
        ShownRow: {
            /**
             * Format: uint32
             * @description The number of the line that begins here; none if the row continues the one before it.
             */
            line?: number | null;
            /** @description Its parts, from left to right. */
            parts: components["schemas"]["ShownPart"][];
        };
        /** @description The view of what is to be approved: complete, with deceptive characters escaped. */
        ShownSubject: {
            /** @description The tool, for a call; `run_command` for a command. */
            tool?: string | null;
            /** @description Its capabilities. */
            findings: components["schemas"]["Finding"][];
            /** @description Warnings, each in a few words. Ordinary code and arguments have none. */
            remarks: string[];
            /** @description The code, or the arguments as JSON, row by row. */
            rows: components["schemas"]["ShownRow"][];
        };
        /** @description What a run has used. */
        Spent: {
            /**
             * Format: uint32
             * @description Turns of the model.
             */
            steps: number;
            /**
             * Format: uint64
             * @description Input tokens.
             */
            input_tokens: number;
            /**
             * Format: uint64
             * @description Output tokens.
             */
            output_tokens: number;
            /**
             * Format: double
             * @description Money.
             */
            money: number;
            /**
             * Format: uint64
             * @description Milliseconds of the model.
             */
            model_ms: number;
            /**
             * Format: uint64
             * @description Milliseconds of tools.
             */
            tool_ms: number;
            /**
             * Format: uint32
             * @description Tool calls.
             */
            calls: number;
            /**
             * Format: uint32
             * @description Tool calls by code of cells.
             * @default 0
             */
            cell_calls: number;
            /**
             * Format: uint32
             * @description Rollbacks.
             */
            repeats: number;
        };
        /** @description The start of a run, which never changes. */
        Start: {
            /** @description The task. */
            task: string;
            /**
             * @description Files of the workspace.
             * @default []
             */
            files: components["schemas"]["TaskFile"][];
            /** @description The model, as `provider/name`. */
            model: string;
            /** @description Its dialect. */
            dialect: components["schemas"]["Dialect"];
            /**
             * @description The language of prompts and messages.
             * @default english
             */
            language: components["schemas"]["Language"];
            /**
             * @description The version of the prompts in that language, set when the run starts. Other prompts may lead to
             *     other requests.
             */
            prompts?: string | null;
            /** @description The budget. */
            budget: components["schemas"]["Budget"];
            /**
             * Format: uint32
             * @description The context window: tokens of a conversation and its reply together.
             */
            context_window: number;
            /**
             * Format: uint32
             * @description The most tokens of a reply.
             */
            max_tokens: number;
            /**
             * Format: double
             * @description Sampling temperature; by default that of the server.
             */
            temperature?: number | null;
            /**
             * @description Whether the model is asked to check its first answer against the task before it is accepted.
             * @default false
             */
            review: boolean;
            /**
             * @description The tools for the model besides `python` and `answer`.
             * @default []
             */
            tools: string[];
            /**
             * @description Packages of the environment, for the prompt.
             * @default []
             */
            packages: string[];
            /** @description Python and the packages of the environment, each with its version. */
            versions?: string[];
            /** @description The tools that code may call. */
            granted?: components["schemas"]["GrantedTool"][];
            /**
             * @description The approval policy.
             * @default {
             *       "policy": "never"
             *     }
             */
            approvals: components["schemas"]["Approvals"];
            /** @description Whether code may try alternatives, and which of them is accepted. */
            branches?: components["schemas"]["Branches"] | null;
            /** @description The run that it continues. */
            parent?: components["schemas"]["Parent"] | null;
            /** @description The environment of its session, by its name; by default the agent's first. */
            environment?: string | null;
            /** @description The isolation of its session; by default that of the environment's first engine. */
            isolation?: components["schemas"]["Walls"] | null;
            /** @description The program that a person gave the task in, and decides in, if it named itself. */
            client?: components["schemas"]["RunClient"] | null;
        };
        /** @description How a cell ended, in one word. */
        Status: "success" | "failure" | "timeout" | "crashed";
        /** @description Steps of a run. */
        StepPage: {
            /** @description Whether more steps follow. */
            more: boolean;
            steps: components["schemas"]["StepView"][];
        };
        /** @description One turn of the model as parsed, and its effects. */
        StepView: {
            /** @description The answer that the reply gives. The run's last step has the run's answer; the others were sent back. */
            answer?: string | null;
            /** @description Tool calls, in order. */
            calls: components["schemas"]["CallView"][];
            /**
             * Format: double
             * @description Cost of the step, in the currency of the model's prices; absent if they are unknown.
             */
            cost?: number | null;
            /** @description Note for the model, such as why its code was not run. */
            note?: string | null;
            /**
             * Format: int32
             * @description Number of the step, from 1.
             */
            number: number;
            /** @description Thoughts of the model, if it gave any. */
            thought?: string | null;
            /**
             * Format: int64
             * @description Input and output tokens of the step.
             */
            tokens: number;
            /** @description False if the reply was not understood. */
            understood: boolean;
        };
        /** @description One of the two output streams of a program. */
        Stream: "stdout" | "stderr";
        /** @description The subject of an approval. */
        Subject: {
            /** @constant */
            kind: "cell";
            /** @description All of it. */
            code: string;
            /** @description Its capabilities. */
            risk: components["schemas"]["Risk"];
        } | {
            /** @constant */
            kind: "command";
            /** @description The line for the shell. */
            command: string;
            /** @description Where it starts; `None`: in the workspace. */
            directory?: string | null;
            /** @description Its standard input; `None`: nothing. */
            input?: string | null;
            /** @description Its capabilities. */
            risk: components["schemas"]["Risk"];
        } | {
            /** @constant */
            kind: "call";
            /**
             * Format: uint32
             * @description Its number among the calls of the cell, from 1; 0 for a call of the model.
             */
            number: number;
            /** @description The tool. */
            tool: string;
            /** @description The arguments. */
            arguments: {
                [key: string]: unknown;
            };
        };
        /** @description A column of a table. */
        TableColumn: {
            /** @description Its name. */
            name: string;
            /** @description Its type, in the words of the library. */
            dtype: string;
        };
        /** @description A condition on the values of a column. A missing value does not meet it. */
        TableFilter: {
            /**
             * Format: int32
             * @description The column, counted from 0; -1 is the index.
             */
            column: number;
            /** @description How a value of the column is compared. */
            operator: components["schemas"]["TableOperator"];
            /** @description With what: a number, a date or a text, as the column has. */
            value: string;
        };
        /** @description How a filter compares. */
        TableOperator: "contains" | "equals" | "less" | "greater";
        /** @description Rows of a table. */
        TableRows: {
            /** @description Its columns: the first 100. */
            columns: components["schemas"]["TableColumn"][];
            /** @description The label of each row. */
            index: (boolean | number | string | null)[];
            /** @description The values of each row; null for what is missing. */
            rows: (boolean | number | string | null)[][];
            /**
             * Format: uint64
             * @description How many rows pass the filters.
             */
            matching_rows: number;
            /**
             * Format: uint64
             * @description How many rows the table has.
             */
            total_rows: number;
            /**
             * Format: uint64
             * @description How many columns the table has.
             */
            total_columns: number;
        };
        /** @description A file that a run starts with. */
        TaskFile: {
            /** @description Its name in the workspace. */
            name: string;
            /**
             * Format: uint64
             * @description Its size.
             */
            bytes: number;
            /** @description Its beginning, if it is text. */
            head?: string;
            /** @description Its contents. */
            contents: components["schemas"]["BlobRef"];
        };
        /** @description Size of a terminal, in characters. */
        TerminalSizeAsked: {
            /** Format: int32 */
            columns: number;
            /** Format: int32 */
            rows: number;
        };
        /** @description The conversation that a run is a turn of. */
        Thread: {
            /** @description The runs that it continues, oldest first. A deleted one ends the list. */
            earlier: components["schemas"]["Turn"][];
            /** @description The runs that continue its end, oldest first; of several, the newest. */
            later: components["schemas"]["Turn"][];
        };
        /** @description The answer to a call by code of a cell. */
        ToolAnswer: {
            /** @constant */
            kind: "value";
            /** @description It. */
            value: unknown;
        } | {
            /** @constant */
            kind: "large";
            /** @description It. */
            json: components["schemas"]["BlobRef"];
        } | {
            /** @constant */
            kind: "kept";
            /** @description Its marker. */
            marker: string;
            /** @description It. */
            data: components["schemas"]["BlobRef"];
        } | {
            /** @constant */
            kind: "failed";
            /** @description In its words. */
            message: string;
        } | {
            /** @constant */
            kind: "refused";
            /** @description The message for the code. */
            message: string;
        } | {
            /** @constant */
            kind: "cancelled";
        } | {
            /** @constant */
            kind: "lost";
        };
        /**
         * @description A tool of the host.
         * @enum {string}
         */
        ToolAsked: "plan" | "read_file" | "run_command";
        /** @description A call by a model. */
        ToolCall: {
            /**
             * @description Unique within a reply. Empty for the `function_call` of older servers, whose result is then
             *     sent in the older form too.
             */
            id: string;
            /** @description The tool's name, as the model wrote it. */
            name: string;
            /** @description The arguments as the model wrote them: JSON, if all is well. */
            arguments: string;
        };
        /**
         * @description The effects of a tool: whether approval is needed, and whether an interrupted call may be
         *     performed again.
         */
        ToolEffects: "none" | "once" | "each_call";
        /** @description Network activity. */
        Traffic: {
            /**
             * Format: uint64
             * @description Connections made to servers.
             */
            connections: number;
            /**
             * Format: uint64
             * @description Bytes sent to servers.
             */
            bytes_sent: number;
            /**
             * Format: uint64
             * @description Bytes received from servers.
             */
            bytes_received: number;
            /**
             * Format: uint64
             * @description Denials.
             */
            denials: number;
            /**
             * Format: uint64
             * @description Denials that were only counted, because their channel was full.
             */
            denials_unreported: number;
        };
        /** @description One run of a conversation. */
        Turn: components["schemas"]["RunBrief"] & {
            /** @description Its answer, if it has ended with one. */
            answer?: string | null;
        };
        /** @description Changes of the title or the tags of a run. */
        UpdateRun: {
            /** @description New tags instead of the current ones. */
            tags?: string[] | null;
            /** @description Title, shown instead of the task; an empty one is removed. */
            title?: string | null;
        };
        /** @description Requested changes of a session. Omitted fields stay as they are. */
        UpdateSession: {
            /** @description Metadata: at most 16 strings. A change replaces all of it. */
            metadata?: {
                [key: string]: string;
            } | null;
            /** @description Name; empty for none. */
            name?: string | null;
            /**
             * Format: int64
             * @description Seconds from now after which the session ends; 0 for never.
             */
            ttl_seconds?: number | null;
        };
        /** @description Tokens of one request and its reply. */
        Usage: {
            /**
             * Format: uint64
             * @description Input tokens, cached or not.
             */
            input_tokens: number;
            /**
             * Format: uint64
             * @description Output tokens, reasoning included.
             */
            output_tokens: number;
            /**
             * Format: uint64
             * @description Input tokens from the server's cache.
             */
            cached_tokens: number;
            /**
             * Format: uint64
             * @description Input tokens written to the server's cache.
             */
            cache_write_tokens: number;
            /**
             * Format: uint64
             * @description Output tokens of reasoning, if the server reports them.
             */
            thinking_tokens: number;
            /** @description Whether a count was left out by the server, so that it is our estimate. */
            estimated: boolean;
        };
        /** @description Resource use of a session, including its checkpoints. */
        UseView: {
            /**
             * Format: int64
             * @description CPU time since the session started or woke, in milliseconds.
             */
            cpu_ms?: number | null;
            /**
             * Format: int64
             * @description Memory of the session, including its files, in bytes.
             */
            memory_bytes?: number | null;
            /**
             * Format: int64
             * @description Number of processes and threads.
             */
            processes?: number | null;
        };
        /** @description A comparison with the run. */
        Verdict: "identical" | "changed" | "not_deterministic" | "not_run";
        /** @description The isolation of the cell. */
        Walls: "full" | "unfiltered" | "container" | "gvisor" | "none";
        /** @description What speaks against the place where a value was seen. */
        Weakness: "other_row" | "other_column" | "other_measure" | "other_unit" | "outdated" | "incidental";
        /**
         * @description What to do with a new cell if another one is running.
         * @enum {string}
         */
        WhenBusyAsked: "wait" | "refuse";
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    log_in: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["LogIn"];
            };
        };
        responses: {
            /** @description The key is valid, and is in the cookie `belljar`, or `__Host-belljar` on a service with a domain for ports. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    log_out: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The cookie is deleted. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_examples: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The tasks. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExampleView"][];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    show_me: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Tenant and rights of the key. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Me"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_runs: {
        parameters: {
            query?: {
                /** @description Maximum number of entries. */
                limit?: number;
                /** @description `next_cursor` of the previous page. */
                cursor?: string;
                /** @description Only runs with all of these words in title or task, in any case. */
                text?: string;
                /** @description Only runs in this state. */
                state?: "running" | "waits" | "answered" | "unverified" | "ended" | "interrupted";
                /** @description Only runs with this tag. */
                tag?: string;
                /** @description Only runs that were created at this time or later, in seconds since 1970. */
                created_after?: number;
                /** @description Only runs that were created before this time, in seconds since 1970. */
                created_before?: number;
                /** @description Only runs that continue this one. */
                parent?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of runs. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunPage"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_run: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateRun"];
            };
        };
        responses: {
            /** @description The started run. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    show_run: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The run. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The run. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_run: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The ended run. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Deleted. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    update_run: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The run. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["UpdateRun"];
            };
        };
        responses: {
            /** @description The run. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    run_again: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The run. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["RunAgain"];
            };
        };
        responses: {
            /** @description The started run. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    decide_approval: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The run. */
                id: string;
                /** @description `id` of one of `waits_for`. */
                approval: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Decide"];
            };
        };
        responses: {
            /** @description The decision is in the journal. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    preview_edit: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The run. */
                id: string;
                /** @description `id` of one of `waits_for`. */
                approval: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EditedCode"];
            };
        };
        responses: {
            /** @description The view of the code. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EditPreview"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_artifact: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The run. */
                id: string;
                /** @description `path` of an artifact of the run. */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": unknown;
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    branch_run: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The run. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BranchFrom"];
            };
        };
        responses: {
            /** @description The started run. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    raise_budget: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The run. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["BudgetAsked"];
            };
        };
        responses: {
            /** @description The run, with its new budget. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    cancel_run: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The run. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            /** @description The run, which is ending. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    stream_run: {
        parameters: {
            query?: never;
            header?: {
                /** @description Number of the last received event. */
                "Last-Event-ID"?: number | null;
            };
            path: {
                /** @description The run. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The later events, numbered by `id`. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": {
                        /** @description Number of the event, from 1. */
                        id: string;
                        /** @description `type` of the event, or `fault`. */
                        event: string;
                        data: string;
                    };
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    export_run: {
        parameters: {
            query?: {
                /** @description Export format [default: notebook]. */
                format?: "ipynb" | "py" | "html";
            };
            header?: never;
            path: {
                /** @description The run. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ipynb+json": string;
                    "text/x-python": string;
                    "text/html": string;
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    follow_up_run: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The ended run. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FollowUp"];
            };
        };
        responses: {
            /** @description The started run. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    interrupt_run: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The run. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            /** @description Whether a cell was running. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Interrupted"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    set_policy: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The run. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SetPolicy"];
            };
        };
        responses: {
            /** @description The run. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    reproduce_run: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The ended run. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            /** @description Progress, then the comparison. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": {
                        /** @description Number of the event, from 1. */
                        id: string;
                        /** @description `type` of the event, or `fault`. */
                        event: string;
                        data: string;
                    };
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    resume_run: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The run. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            /** @description The run. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_shares: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The run. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The links. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ShareList"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_share: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The run. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CreateShare"];
            };
        };
        responses: {
            /** @description The link. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedShare"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    revoke_share: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The run. */
                id: string;
                /** @description The link. */
                share: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The link is revoked. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_steps: {
        parameters: {
            query?: {
                /** @description Only steps after this number. */
                after?: number;
                /** @description Maximum number of entries. */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The run. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The steps, in order. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StepPage"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    show_thread: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The run. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The other turns. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Thread"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_sessions: {
        parameters: {
            query?: {
                /** @description Maximum number of entries. */
                limit?: number;
                /** @description `next_cursor` of the previous page. */
                cursor?: string;
                /** @description Only sessions of this name. */
                name?: string;
                /** @description Only sessions with this metadata: `KEY=VALUE`. */
                metadata?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of sessions. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionPage"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_session: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CreateSession"];
            };
        };
        responses: {
            /** @description The session. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    load_snapshot: {
        parameters: {
            query?: {
                /** @description One of the environments that the service offers. */
                environment?: string;
                /** @description One of the isolation tiers that the service offers [default: its first, or the tenant's minimum]. */
                isolation?: string;
            };
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/vnd.belljar.snapshot": string;
            };
        };
        responses: {
            /** @description The session. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    show_session: {
        parameters: {
            query?: never;
            header?: {
                /** @description `ETag` of an earlier response; 304 if nothing has changed. */
                "If-None-Match"?: string | null;
            };
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The session. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionView"];
                };
            };
            /** @description Not modified. */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_session: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Deleted. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    update_session: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["UpdateSession"];
            };
        };
        responses: {
            /** @description The session. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    download_archive: {
        parameters: {
            query?: {
                /** @description Directory, in the workspace or below `/tmp` [default: the whole workspace]. */
                path?: string;
            };
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The archive. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-tar": unknown;
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    upload_archive: {
        parameters: {
            query?: {
                /** @description Directory, in the workspace or below `/tmp` [default: the whole workspace]. */
                path?: string;
            };
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/x-tar": string;
            };
        };
        responses: {
            /** @description The files are written. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_cells: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The cells. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CellList"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    run_cell: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RunCell"];
            };
        };
        responses: {
            /** @description The outcome, or the events, numbered by `id`. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Outcome"];
                    "text/event-stream": {
                        /** @description Number of the event, from 1. */
                        id: string;
                        /** @description `type` of the event, or `fault`. */
                        event: string;
                        data: string;
                    };
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    show_cell: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
                /** @description Number of the cell. */
                cell: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The cell. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CellView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    stream_cell: {
        parameters: {
            query?: never;
            header?: {
                /** @description Number of the last received event. */
                "Last-Event-ID"?: number | null;
            };
            path: {
                /** @description The session. */
                id: string;
                /** @description Number of the cell. */
                cell: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The later events, numbered by `id`. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": {
                        /** @description Number of the event, from 1. */
                        id: string;
                        /** @description `type` of the event, or `fault`. */
                        event: string;
                        data: string;
                    };
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    answer_input: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
                /** @description Number of the cell. */
                cell: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CellInput"];
            };
        };
        responses: {
            /** @description Answered. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_checkpoints: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The checkpoints. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointList"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_checkpoint: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateCheckpoint"];
            };
        };
        responses: {
            /** @description The checkpoint is made. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    forget_checkpoint: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
                /** @description Name of the checkpoint. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Deleted. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_commands: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The commands. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandList"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    run_command: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["RunCommand"];
            };
        };
        responses: {
            /** @description The ended command, or its events. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandView"];
                    "text/event-stream": {
                        /** @description Position after the event, in bytes of the output. */
                        id: string;
                        /** @description `type` of the event. */
                        event: string;
                        data: string;
                    };
                };
            };
            /** @description The running command. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    show_command: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
                /** @description Process id of the command. */
                pid: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The command. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    kill_command: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
                /** @description Process id of the command. */
                pid: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Killed. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    stream_command: {
        parameters: {
            query?: {
                /** @description Position in the output, in bytes [default: 0]. */
                from?: number;
            };
            header?: {
                /** @description Id of the last received event, instead of `from`. */
                "Last-Event-ID"?: number | null;
            };
            path: {
                /** @description The session. */
                id: string;
                /** @description Process id of the command. */
                pid: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The later events; `id` is the position after each. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": {
                        /** @description Position after the event, in bytes of the output. */
                        id: string;
                        /** @description `type` of the event. */
                        event: string;
                        data: string;
                    };
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    write_input: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
                /** @description Process id of the command. */
                pid: number;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CommandInput"];
            };
        };
        responses: {
            /** @description Written. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    resize_terminal: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
                /** @description Process id of the command. */
                pid: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TerminalSizeAsked"];
            };
        };
        responses: {
            /** @description Changed. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    signal_command: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
                /** @description Process id of the command. */
                pid: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CommandSignal"];
            };
        };
        responses: {
            /** @description Sent. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    open_terminal: {
        parameters: {
            query?: never;
            header?: {
                /** @description `belljar`; plus `belljar.key.KEY` if the client cannot send `Authorization`. */
                "Sec-WebSocket-Protocol"?: string | null;
            };
            path: {
                /** @description The session. */
                id: string;
                /** @description Process id of the command. */
                pid: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The WebSocket is open. */
            101: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The request is not a WebSocket upgrade. */
            426: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    make_directory: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MakeDirectory"];
            };
        };
        responses: {
            /** @description The directory exists. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_files: {
        parameters: {
            query?: {
                /** @description Directory, in the workspace or below `/tmp` [default: the whole workspace]. */
                path?: string;
            };
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The files. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FileList"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_file: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
                /** @description Path, relative to the workspace, or below `/tmp`. */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": unknown;
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    put_file: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
                /** @description Path, relative to the workspace, or below `/tmp`. */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/octet-stream": string;
            };
        };
        responses: {
            /** @description The file is written. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_file: {
        parameters: {
            query?: {
                /** @description Whether to delete a directory with its contents. */
                recursive?: boolean;
            };
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
                /** @description Path, relative to the workspace, or below `/tmp`. */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Deleted. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    fork_session: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ForkSession"];
            };
        };
        responses: {
            /** @description The new sessions. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Forks"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    hibernate_session: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            /** @description The session hibernates. What it will lack when it wakes. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeftOut"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    interrupt_session: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            /** @description Whether a cell was running. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Interrupted"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    move_lease: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MoveLease"];
            };
        };
        responses: {
            /** @description The session. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    show_manifest: {
        parameters: {
            query?: {
                /** @description The namespace [default: `main`]. */
                namespace?: string;
            };
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The names. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Manifest"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_namespaces: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The namespaces. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NamespaceList"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_namespace: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateNamespace"];
            };
        };
        responses: {
            /** @description The namespace. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NamespaceView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_namespace: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
                /** @description Name of the namespace. `main` cannot be removed. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Removed. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    restart_namespace: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
                /** @description Name of the namespace. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            /** @description The namespace is empty. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    show_notebook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The notebook; an empty one of revision 0 before the first is stored. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Notebook"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    store_notebook: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Notebook"];
            };
        };
        responses: {
            /** @description Stored. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NotebookRevision"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    open_port: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
                /** @description The port, from 1024 on. */
                port: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description How to reach it. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PortView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    rename_file: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RenameFile"];
            };
        };
        responses: {
            /** @description Renamed. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    restore_session: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["RestoreCheckpoint"];
            };
        };
        responses: {
            /** @description The variables are restored. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    download_snapshot: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The snapshot. `Belljar-Left-Out` is the number of omitted names and files; of files, at most 1,001. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/vnd.belljar.snapshot": unknown;
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    stat_file: {
        parameters: {
            query: {
                /** @description Path, relative to the workspace, or below `/tmp`. */
                path: string;
            };
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Its status. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FileStatusView"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_upload: {
        parameters: {
            query?: never;
            header: {
                /** @description `1.0.0` */
                "Tus-Resumable": string;
                /** @description Size of the file, in bytes. */
                "Upload-Length": number;
                /** @description `filename` and, after a space, the path in base64, relative to the workspace or below `/tmp`. */
                "Upload-Metadata": string;
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The header `Location` has the path of the upload. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_upload: {
        parameters: {
            query?: never;
            header: {
                /** @description `1.0.0` */
                "Tus-Resumable": string;
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
                /** @description The upload. */
                upload: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Nothing of it is kept. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    show_upload: {
        parameters: {
            query?: never;
            header: {
                /** @description `1.0.0` */
                "Tus-Resumable": string;
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
                /** @description The upload. */
                upload: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The headers `Upload-Offset` and `Upload-Length` have the bytes that arrived, and all of them. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    add_to_upload: {
        parameters: {
            query?: never;
            header: {
                /** @description `1.0.0` */
                "Tus-Resumable": string;
                /** @description Bytes of the file before this part. */
                "Upload-Offset": number;
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
                /** @description The upload. */
                upload: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/offset+octet-stream": string;
            };
        };
        responses: {
            /** @description The header `Upload-Offset` has the bytes that arrived. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    download_table: {
        parameters: {
            query?: {
                /** @description The namespace [default: `main`]. */
                namespace?: string;
                /** @description Column to sort by, as for its rows. */
                sort?: number;
                /** @description Whether the greatest value comes first. */
                descending?: boolean;
                /** @description Conditions that a row must meet, as for its rows. */
                filters?: string;
            };
            header?: never;
            path: {
                /** @description The session. */
                id: string;
                /** @description Name of the variable. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The table. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/csv": unknown;
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    read_table_rows: {
        parameters: {
            query?: {
                /** @description The namespace [default: `main`]. */
                namespace?: string;
                /** @description The first row, among those that pass the filters [default: 0]. */
                offset?: number;
                /** @description Maximum number of rows [default: 100]. */
                limit?: number;
                /** @description Column to sort by, counted from 0; -1 is the index [default: the order of the table]. */
                sort?: number;
                /** @description Whether the greatest value comes first. */
                descending?: boolean;
                /** @description Conditions that a row must meet: a JSON array of at most 20 objects, each a `TableFilter`. */
                filters?: string;
            };
            header?: never;
            path: {
                /** @description The session. */
                id: string;
                /** @description Name of the variable. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The rows. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TableRows"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    read_column_statistics: {
        parameters: {
            query: {
                /** @description The namespace [default: `main`]. */
                namespace?: string;
                /** @description The column, counted from 0; -1 is the index. */
                column: number;
                /** @description Conditions that a row must meet, as for its rows. */
                filters?: string;
            };
            header?: never;
            path: {
                /** @description The session. */
                id: string;
                /** @description Name of the variable. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The statistics. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ColumnStatistics"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    wake_session: {
        parameters: {
            query?: never;
            header?: {
                /** @description Repeating a request with the same key returns the first response again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            /** @description The session is awake. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    watch_directory: {
        parameters: {
            query?: {
                /** @description Directory, in the workspace or below `/tmp` [default: the whole workspace]. */
                path?: string;
            };
            header?: never;
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The changes. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": {
                        /** @description Number of the event, from 1. */
                        id: string;
                        /** @description `type` of the event. */
                        event: string;
                        data: string;
                    };
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    open_socket: {
        parameters: {
            query?: {
                /** @description Cell whose events to send first. */
                cell?: number;
                /** @description Number of the last received event of that cell. */
                after?: number;
            };
            header?: {
                /** @description `belljar`; plus `belljar.key.KEY` if the client cannot send `Authorization`. */
                "Sec-WebSocket-Protocol"?: string | null;
            };
            path: {
                /** @description The session. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The WebSocket is open. */
            101: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The request is not a WebSocket upgrade. */
            426: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    show_shared: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The run. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SharedRun"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_shared_steps: {
        parameters: {
            query?: {
                /** @description Only steps after this number. */
                after?: number;
                /** @description Maximum number of entries. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The steps, in order. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StepPage"];
                };
            };
            /** @description A problem. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
}
