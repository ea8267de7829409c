import warnings
warnings.simplefilter('error')
import os
from collections import Counter
import matplotlib.pyplot as plt
levels = ['高', '中', '低']
by_priority = Counter(task.priority for s in scenarios() for task in s.tasks)
by_disaster = Counter(task.disaster_type for s in scenarios() for task in s.tasks)
print('优先级：', ' '.join(f'{level} {by_priority[level]}' for level in levels))
print('灾害：', dict(by_disaster))

def save(name):
    plt.savefig(name, dpi=100)
    plt.close()
    print('Visualization saved:', os.path.join(os.getcwd(), name))

plt.figure(figsize=(6, 4))
plt.bar(levels, [by_priority[level] for level in levels])
plt.title('任务优先级分布')
plt.ylabel('任务数')
save('01_data_distribution.png')

one = scenarios()[0]
unmatched = [task.task_id for task in one.tasks if all(c.capacity < task.quantity for c in one.carriers)]
print('场景一无法匹配的任务：', len(unmatched))
plt.scatter([l.lng for l in one.locations.values()], [l.lat for l in one.locations.values()], label='受灾点')
plt.scatter([c.lng for c in one.carriers], [c.lat for c in one.carriers], marker='^', label='载具')
plt.title(one.name)
plt.legend()
save('02_single_scenario.png')
