// The plan of a run: the tree of tasks that the model keeps with its tool.

export const PLAN_TOOL = 'recursive_plan_tree_todo';

export type TaskStatus = 'pending' | 'processing' | 'completed' | 'failed' | 'retry' | 'skipped';

export interface Task {
  name: string;
  description: string;
  status: TaskStatus;
  output: string;
  children: Task[];
}

export interface Plan {
  goal: string;
  tasks: Task[];
}

const STATUSES: TaskStatus[] = ['pending', 'processing', 'completed', 'failed', 'retry', 'skipped'];
const DEEPEST = 12;
const MOST = 300;

/** The plan in the arguments of a call; nothing where there is none. */
export function readPlan(given: Record<string, unknown>): Plan | null {
  let left = MOST;
  const text = (value: unknown): string => (typeof value === 'string' ? value : '');
  const tasks = (value: unknown, depth: number): Task[] => {
    if (!Array.isArray(value) || depth > DEEPEST) return [];
    return value.flatMap((one: Record<string, unknown> | null) => {
      if (typeof one !== 'object' || one === null || left <= 0) return [];
      left -= 1;
      const status = STATUSES.find((known) => known === one['status']) ?? 'pending';
      return [
        {
          name: text(one['task_name']),
          description: text(one['description']),
          status,
          output: text(one['output']),
          children: tasks(one['children'], depth + 1),
        },
      ];
    });
  };
  // It may be one level down, under the name that some models give it.
  const tree = (given['tree_nodes'] ? given : (given['task_tree'] ?? given['plan'] ?? given)) as Record<
    string,
    unknown
  >;
  const found = tasks(tree['tree_nodes'], 0);
  return found.length > 0 ? { goal: text(tree['core_goal']), tasks: found } : null;
}

export function countTasks(tasks: Task[]): { done: number; all: number } {
  let [done, all] = [0, 0];
  for (const task of tasks) {
    const inside = countTasks(task.children);
    const isDone = task.status === 'completed' || task.status === 'skipped';
    done += inside.done + (isDone ? 1 : 0);
    all += inside.all + 1;
  }
  return { done, all };
}
