import java.util.ArrayList;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** A thread pool whose tasks share a counter behind a monitor: the virtual machine parks its threads on locks of its own.
 * An argument: how many times the work. */
public class Monitors {
	private static final int TURNS = 200_003;
	private static long shared;

	private static synchronized void add(long value) {
		shared += value;
	}

	private static long work(int task) {
		long garbage = 0;
		for (int turn = 0; turn < TURNS; turn++) {
			garbage += new int[8 + turn % 8].length;
			add(task + 1);
		}
		return garbage;
	}

	public static void main(String[] arguments) throws Exception {
		final int tasksInAll = 8 * (arguments.length > 0 ? Integer.parseInt(arguments[0]) : 1);
		ExecutorService pool = Executors.newFixedThreadPool(4);
		ArrayList<Callable<Long>> tasks = new ArrayList<>();
		for (int i = 0; i < tasksInAll; i++) {
			final int task = i;
			tasks.add(() -> work(task));
		}
		long garbage = 0;
		for (Future<Long> result : pool.invokeAll(tasks)) {
			garbage += result.get();
		}
		pool.shutdown();
		System.out.println("shared " + shared + ", garbage " + garbage);
	}
}
