// A session as a tool for a model, in the form of the AI SDK (npm `ai` 7); figures go back as images.
//
//   npm install belljar ai zod
//   BELLJAR_API_KEY=… AI_GATEWAY_API_KEY=… MODEL=openai/gpt-5-mini node ai-sdk.js "What is the 100th prime?"
//
// Without MODEL, a scripted model stands in.
import { generateText, isStepCount, tool, type LanguageModel } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { Belljar, type Session } from 'belljar';
import { z } from 'zod';

/** A tool that runs Python in a session. */
export const runPython = (session: Session) =>
  tool({
    description: 'Runs Python. Variables stay. The result is the output, figures and the value of the last line.',
    inputSchema: z.object({ code: z.string().describe('Python source code.') }),
    execute: ({ code }, { abortSignal }) => session.run(code, { wallTimeMs: 20_000, signal: abortSignal }),
    // An exception is a result, too: the model reads it and corrects its code.
    toModelOutput: ({ output }) => ({
      type: 'content',
      value: [
        { type: 'text', text: String(output) || '(no output)' },
        ...output.displays.flatMap(({ png }) =>
          png === undefined
            ? []
            : [{ type: 'file' as const, mediaType: 'image/png', data: { type: 'data' as const, data: png } }],
        ),
      ],
    }),
  });

/** Asks a model that can run Python. */
export async function answer(model: LanguageModel, session: Session, prompt: string): Promise<string> {
  const tools = { run_python: runPython(session) };
  const { text } = await generateText({ model, tools, prompt, stopWhen: isStepCount(10) });
  return text;
}

/** A model that calls the tool with these cells, one after the other, and reports what it has read. */
function scripted(cells: string[]): LanguageModel {
  const usage = {
    inputTokens: { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 0, text: 0, reasoning: 0 },
  };
  let step = 0;
  return new MockLanguageModelV4({
    doGenerate: async ({ prompt }) => {
      const code = cells[step];
      step += 1;
      if (code !== undefined)
        return {
          content: [
            { type: 'tool-call', toolCallId: `call-${step}`, toolName: 'run_python', input: JSON.stringify({ code }) },
          ],
          finishReason: { unified: 'tool-calls', raw: undefined },
          usage,
          warnings: [],
        };
      const results = prompt
        .flatMap((message) => (message.role === 'tool' ? message.content : []))
        .flatMap((part) => (part.type === 'tool-result' && part.output.type === 'content' ? part.output.value : []));
      const text = results.map((part) => (part.type === 'text' ? part.text.split('\n').at(-1) : 'a figure')).join(', ');
      return {
        content: [{ type: 'text', text }],
        finishReason: { unified: 'stop', raw: undefined },
        usage,
        warnings: [],
      };
    },
  });
}

const SCRIPT = ['x = 6', '1 / 0', 'import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()', 'x * 7'];

await using belljar = new Belljar();
const session = await belljar.session();
const question = process.argv.slice(2).join(' ') || 'What is six times seven?';
console.log(await answer(process.env['MODEL'] ?? scripted(SCRIPT), session, question));
