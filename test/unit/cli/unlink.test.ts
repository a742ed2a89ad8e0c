/** Undoing a link on made-up installations: what comes back, what goes, what stays. */
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { undone } from '../../../src/cli/link-tensorflow.js';
import { linkTensorFlow, unlinkTensorFlow } from '../../../src/cli/link/link.js';
import { linkFolder } from '../../../src/kernels/tensorflow/binding.js';
import { bindingFile, officialBinding, outcome, textOf, writeFiles } from './fake-installation.js';
import { scene, sceneWithoutPackage, type Scene } from './scene.js';

describe('undoing', () => {
  test('leaves the package as npm left it', async () => {
    const { machine, directory, inspect } = scene();
    await linkTensorFlow('python3', machine);
    expect(await unlinkTensorFlow(machine)).toEqual([{ directory, removal: 'removed-binding' }]);
    expect(inspect().state).toBe('without-binding');
    expect(textOf(path.join(directory, linkFolder, 'fetched'))).toBeUndefined();
  });

  test('brings back an official binding, also after linking twice', async () => {
    const { machine, wheel, binding, inspect } = scene(officialBinding);
    await linkTensorFlow('python3', machine);
    writeFileSync(path.join(wheel, 'libtensorflow_cc.so.2'), 'a newer library');
    await linkTensorFlow('python3', machine);
    expect(binding()).toBe('binding 2 for 2.21.0');
    expect(await unlinkTensorFlow(machine)).toMatchObject([{ removal: 'restored' }]);
    expect(binding()).toBe('official');
    expect(inspect()).toMatchObject({ state: 'linked', links: { kind: 'official', version: '2.9.1' } });
  });

  describe('after the linked binding was damaged', () => {
    /** Overwrites the binding with what no process can load. */
    function damage({ machine, directory, binding }: Scene): void {
      writeFileSync(path.join(directory, bindingFile), 'damaged');
      const { node } = machine.programs;
      machine.programs.node = (command, words, options) =>
        binding() === 'damaged' && words.at(-1) === directory
          ? Promise.resolve(outcome({ status: 1, stderr: 'Error: file too short' }))
          : node(command, words, options);
    }

    const again = [
      ['and linked again', true],
      ['and left so', false],
    ] as const;

    test.each(again)('%s, brings back the official one', async (_, isLinkedAgain) => {
      const made = scene(officialBinding);
      await linkTensorFlow('python3', made.machine);
      damage(made);
      if (isLinkedAgain) await linkTensorFlow('python3', made.machine);
      expect(await unlinkTensorFlow(made.machine)).toMatchObject([{ removal: 'restored' }]);
      expect(made.binding()).toBe('official');
    });

    test.each(again)('%s, leaves none where there was none', async (_, isLinkedAgain) => {
      const made = scene();
      await linkTensorFlow('python3', made.machine);
      damage(made);
      if (isLinkedAgain) await linkTensorFlow('python3', made.machine);
      expect(await unlinkTensorFlow(made.machine)).toMatchObject([{ removal: 'removed-binding' }]);
      expect(made.inspect().state).toBe('without-binding');
    });
  });

  test('brings back the official binding where the linked one was deleted', async () => {
    const { machine, directory, binding } = scene(officialBinding);
    await linkTensorFlow('python3', machine);
    rmSync(path.join(directory, 'lib'), { recursive: true });
    expect(await unlinkTensorFlow(machine)).toMatchObject([{ removal: 'restored' }]);
    expect(binding()).toBe('official');
  });

  test('brings back what someone else put there between two links', async () => {
    const { machine, directory, binding } = scene(officialBinding);
    await linkTensorFlow('python3', machine);
    writeFileSync(path.join(directory, bindingFile), 'official, built anew');
    await linkTensorFlow('python3', machine);
    expect(await unlinkTensorFlow(machine)).toMatchObject([{ removal: 'restored' }]);
    expect(binding()).toBe('official, built anew');
  });

  test('leaves a binding alone that someone else put there since', async () => {
    const { machine, directory, binding } = scene();
    await linkTensorFlow('python3', machine);
    writeFiles(directory, officialBinding);
    expect(await unlinkTensorFlow(machine)).toMatchObject([{ removal: 'nothing' }]);
    expect(binding()).toBe('official');
  });

  test('removes a package that it had fetched', async () => {
    const { machine, inspect } = sceneWithoutPackage();
    await linkTensorFlow('python3', machine);
    expect(inspect().state).toBe('linked');
    expect(await unlinkTensorFlow(machine)).toMatchObject([{ removal: 'removed-package' }]);
    expect(inspect().state).toBe('absent');
  });

  test('says what it did, and how to get rid of what a fetched package leaves', async () => {
    const { machine, directory } = sceneWithoutPackage();
    await linkTensorFlow('python3', machine);
    const fetched = undone(await unlinkTensorFlow(machine));
    expect(fetched[0]).toContain(directory);
    expect(fetched[1]).toContain('`npm prune`');
    const present = scene();
    await linkTensorFlow('python3', present.machine);
    expect(undone(await unlinkTensorFlow(present.machine))).toHaveLength(1);
    expect(undone(await unlinkTensorFlow(present.machine))).toEqual([
      expect.stringContaining('Nothing to undo'),
    ]);
  });

  test('does nothing where nothing was done', async () => {
    const { machine, binding } = scene(officialBinding);
    expect(await unlinkTensorFlow(machine)).toMatchObject([{ removal: 'nothing' }]);
    expect(binding()).toBe('official');
  });
});
