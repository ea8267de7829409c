def metrics(results):
    every = [task for r in results for task in r['done'] + r['lost']]
    done = [task for r in results for task in r['done']]
    high = [task for task in every if task.priority == '高']
    delays = [delay for r in results for delay in r['delays']]
    return {
        '完成率': len(done) / len(every),
        '平均响应时间': sum(delays) / len(delays),
        '载具利用率': sum(r['used'] for r in results) / len(results),
        '高优先级成功率': sum(task in done for task in high) / len(high),
    }

table = {'贪心': metrics(greedy), '加权': metrics(scored)}
for name, row in table.items():
    print(name, ' '.join(f'{key} {value:.4f}' for key, value in row.items()))
for offset, (name, row) in enumerate(table.items()):
    plt.bar([at + offset * 0.4 for at in range(4)], list(row.values()), width=0.4, label=name)
plt.xticks(range(4), list(table['贪心']))
plt.title('算法对比')
plt.legend()
save('04_comparison.png')
with open('05_对比报告.md', 'w', encoding='utf-8') as file:
    file.write('# 算法对比报告\n\n| 指标 | 贪心 | 加权 |\n|---|---|---|\n')
    for key in table['贪心']:
        file.write(f"| {key} | {table['贪心'][key]:.4f} | {table['加权'][key]:.4f} |\n")
print('报告：', os.path.abspath('05_对比报告.md'))
